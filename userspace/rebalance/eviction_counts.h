// SPDX-License-Identifier: Apache-2.0
// The limits of a plan's evictions, and what disruption budgets allow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/policy.h"

namespace forestall::rebalance {

// What became of one eviction.
enum class EvictResult : std::uint8_t {
  evicted,
  // By the API server or the pacing, or because the pod has no UID or no other node has room.
  refused,
  total_limit,
  node_limit,
  namespace_limit,
};

// Counts of evictions and what disruption budgets still allow, over all plugins of a plan.
class EvictionCounts {
 public:
  EvictionCounts(const Policy& policy, const ClusterView& view);

  // Checks the limits (total, node, namespace), then requests the eviction as the API server would
  // answer it. Sets `refusal` to the message of a refused one. Only successes count.
  [[nodiscard]] EvictResult evict(PodIndex pod, std::string& refusal);

 private:
  [[nodiscard]] std::string api_refusal(PodIndex pod);
  void count(const ClusterPod& pod);

  const Policy& policy_;
  const ClusterView& view_;
  std::uint64_t total_ = 0;
  std::unordered_map<std::string_view, std::uint64_t> by_node_;
  std::unordered_map<std::string_view, std::uint64_t> by_namespace_;
  std::vector<bool> evicted_;          // by pod
  std::vector<std::int32_t> allowed_;  // disruptions, by budget
};

}  // namespace forestall::rebalance
