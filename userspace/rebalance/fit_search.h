// SPDX-License-Identifier: Apache-2.0
// nodeFit for many pods: in a cluster that is full, or whose nodes a pod's rules refuse, no pod is
// compared with each node.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/eligible_nodes.h"

namespace forestall::rebalance {

class FitSearch {
 public:
  // `view` must outlive this object.
  FitSearch(const ClusterView& view, std::span<const NodeIndex> nodes)
      : view_(view), eligible_(view, nodes) {}

  // Whether the pod fits one of the nodes, its own excluded.
  [[nodiscard]] bool fits_any_other(PodIndex pod);

 private:
  // The few nodes that had room for a pod that fitted none.
  struct Searched {
    Amounts request;
    const std::vector<NodeIndex>* of = nullptr;  // that were searched
    std::vector<NodeIndex> with_room;
  };

  // Those of `nodes` that may have room for the pod.
  [[nodiscard]] const std::vector<NodeIndex>& rooms(PodIndex pod,
                                                    const std::vector<NodeIndex>& nodes);
  void remember(PodIndex pod, const std::vector<NodeIndex>& nodes);

  const ClusterView& view_;
  EligibleNodes eligible_;
  std::vector<Searched> searched_;
  std::size_t changes_ = 0;  // of the view, for which searched_ holds
};

}  // namespace forestall::rebalance
