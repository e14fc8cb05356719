// SPDX-License-Identifier: Apache-2.0
// The nodes that the rules of a pod admit. They are computed once for all pods with equal rules,
// because the pods of a workload have theirs in common.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

class EligibleNodes {
 public:
  // Which rules count.
  struct Rules {
    bool affinity = true;  // spec.nodeSelector and the required node affinity
    bool taints = true;    // tolerations of taints with effect NoSchedule or NoExecute
  };

  // `view` must outlive this object.
  EligibleNodes(const ClusterView& view, std::span<const NodeIndex> nodes);

  // Those of the nodes that the pod admits, in their order. Valid as long as this object; the same
  // object for pods with equal rules.
  [[nodiscard]] const std::vector<NodeIndex>& of(const ClusterPod& pod, Rules rules);

 private:
  const ClusterView& view_;
  std::vector<NodeIndex> all_;
  bool tainted_ = false;  // some node keeps pods away
  std::unordered_map<std::string, std::vector<NodeIndex>> known_;
};

}  // namespace forestall::rebalance
