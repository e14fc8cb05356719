// SPDX-License-Identifier: Apache-2.0
#include "cluster/cycle_plan.h"

#include <algorithm>
#include <utility>

#include "rebalance/rebalance.h"

namespace forestall::cluster {

CyclePlan::Made CyclePlan::make(RefusedPods& refused, MonotonicTime now) {
  if (made_++ == 0) refused.mark(snapshot_, now);
  Made made{
      .plan = rebalance::rebalance(policy_, snapshot_, history_), .evictions = {}, .refused = {}};
  std::set<std::size_t> pods;
  for (const rebalance::PodEviction& each : made.plan.evictions) {
    const rebalance::ClusterPod& pod = snapshot_.pods[each.pod];
    PlannedEviction eviction{
        {std::string(pod.pod_namespace), std::string(pod.name), std::string(pod.uid)},
        std::string(pod.node),
        each.profile,
        each.plugin,
        each.reason};
    if (!each.refused.empty()) {
      made.refused.emplace_back(std::move(eviction), each.refused);
      continue;
    }
    // A plugin may evict a pod twice.
    if (ended_.contains(pod.uid) || !pods.insert(each.pod).second) continue;
    made.evictions.push_back(std::move(eviction));
  }
  return made;
}

void CyclePlan::ended(const std::string& uid, const std::string& refusal) {
  ended_.insert(uid);
  if (refusal.empty()) return;
  const auto pod = std::ranges::find(snapshot_.pods, uid, &rebalance::ClusterPod::uid);
  if (pod != snapshot_.pods.end()) pod->refused = snapshot_.texts->keep(refusal);
}

}  // namespace forestall::cluster
