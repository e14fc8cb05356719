// SPDX-License-Identifier: Apache-2.0
#include "rebalance/eviction_counts.h"

#include <algorithm>
#include <optional>

#include "base/quotes.h"
#include "rebalance/selector.h"

namespace forestall::rebalance {
namespace {

bool reached(const std::optional<std::uint64_t>& limit, std::uint64_t count) {
  return limit && count + 1 > *limit;
}

// Counts by name only if there is a limit.
using CountsByName = std::unordered_map<std::string_view, std::uint64_t>;
bool reached(const std::optional<std::uint64_t>& limit, CountsByName& counts,
             std::string_view name) {
  return limit && reached(limit, counts[name]);
}

std::string ignored(const ClusterPod& pod, const std::string& answer) {
  return "error when evicting pod (ignoring) " + in_double_quotes(pod.name) + ": " + answer;
}

}  // namespace

EvictionCounts::EvictionCounts(const Policy& policy, const ClusterView& view)
    : policy_(policy), view_(view), evicted_(view.snapshot().pods.size()) {
  for (const DisruptionBudget& each : view.snapshot().budgets) {
    allowed_.push_back(each.disruptions_allowed);
  }
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    if (view.summary(i).evicted_in_background) count(view.pod(i));
  }
}

void EvictionCounts::count(const ClusterPod& pod) {
  ++total_;
  if (policy_.evictions_per_node && !pod.node.empty()) ++by_node_[pod.node];
  if (policy_.evictions_per_namespace) ++by_namespace_[pod.pod_namespace];
}

// pkg/registry/core/pod/storage/eviction.go: pods that are pending, terminating or have ended need
// no budget, and more than one budget is an error. A pod that the running plugin evicted already is
// terminating, so evicting it again succeeds.
std::string EvictionCounts::api_refusal(PodIndex index) {
  const ClusterPod& pod = view_.pod(index);
  if (!pod.refused.empty()) return ignored(pod, std::string(pod.refused));
  const bool terminating = pod.terminating || evicted_[index];
  if (!is_live(pod) || pod.phase == PodPhase::pending || terminating) return "";
  std::vector<std::size_t> selecting;
  for (const std::size_t each : view_.budgets_in(pod.pod_namespace)) {
    const auto& selector = view_.snapshot().budgets[each].selector;
    if (selector && matches(*selector, pod.labels)) selecting.push_back(each);
  }
  const bool none_left = std::any_of(selecting.begin(), selecting.end(),
                                     [&](std::size_t each) { return allowed_[each] <= 0; });
  if (none_left) {
    return ignored(pod, "Cannot evict pod as it would violate the pod's disruption budget.");
  }
  if (selecting.size() > 1) {
    return ignored(pod,
                   "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                   "does not support.");
  }
  for (const std::size_t each : selecting) --allowed_[each];
  return "";
}

EvictResult EvictionCounts::evict(PodIndex index, std::string& refusal) {
  const ClusterPod& pod = view_.pod(index);
  if (pod.uid.empty()) {
    refusal =
        "Pod " + std::string(pod.pod_namespace) + "/" + std::string(pod.name) + " is missing UID";
    return EvictResult::refused;
  }
  // It counts already.
  if (pod.evicted_in_background) return EvictResult::evicted;
  if (reached(policy_.evictions_total, total_)) return EvictResult::total_limit;
  if (!pod.node.empty() && reached(policy_.evictions_per_node, by_node_, pod.node)) {
    return EvictResult::node_limit;
  }
  if (reached(policy_.evictions_per_namespace, by_namespace_, pod.pod_namespace)) {
    return EvictResult::namespace_limit;
  }
  refusal = api_refusal(index);
  if (!refusal.empty()) return EvictResult::refused;
  count(pod);
  evicted_[index] = true;
  return EvictResult::evicted;
}

}  // namespace forestall::rebalance
