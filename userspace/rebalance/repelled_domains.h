// SPDX-License-Identifier: Apache-2.0
// Where required anti-affinity keeps a pod away, as the scheduler's InterPodAffinity filter has it:
// by whole topology domains, for the terms of the pod and for those of the pods that run there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "rebalance/snapshot.h"

namespace forestall::rebalance {

class ClusterView;

class RepelledDomains {
 public:
  // Whether the pod is kept away from the node. One pod is checked for many nodes: what holds for
  // the last one is kept while `version`, which counts the changes of the view, is the same.
  [[nodiscard]] bool repel(const ClusterView& view, std::size_t pod, const Node& node,
                           std::uint64_t version);

 private:
  void collect(const ClusterView& view, std::size_t pod);
  void collect_from(const ClusterPod& pod, const ClusterPod& other, const Node& node);

  std::optional<std::vector<std::size_t>> with_terms_;  // few pods have anti-affinity
  std::optional<std::size_t> pod_;
  std::uint64_t version_ = 0;
  std::set<std::pair<std::string_view, std::string_view>> domains_;  // topology key, value
};

}  // namespace forestall::rebalance
