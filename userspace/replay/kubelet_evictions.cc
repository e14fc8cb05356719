// SPDX-License-Identifier: Apache-2.0
#include "replay/kubelet_evictions.h"

#include <algorithm>

#include "policy/cleanup.h"

namespace forestall::replay {
namespace {

// Unknown without workloads: then it is not gone.
bool is_gone(CgroupId pod, const Observation& observation) {
  if (!observation.workloads) return false;
  const auto found = std::ranges::find(
      *observation.workloads, pod, [](const WorkloadSample& each) { return each.workload.cgroup; });
  return found == observation.workloads->end() || found->processes == 0U;
}

bool is_killed(CgroupId pod, const Observation& observation) {
  return std::ranges::find(observation.kills, pod, &KillProgress::cgroup) !=
         observation.kills.end();
}

}  // namespace

void KubeletEvictions::take(const Observation& observation, const Decision& decision) {
  std::erase_if(awaited_, [&](const Evicted& each) {
    return observation.at - each.at >= policy::kCleanupTimeout || is_gone(each.pod, observation);
  });
  if (decision.reason == Reason::no_threshold_met) awaited_.clear();
  // All pods of one decision are evicted in one pass.
  const std::vector<Evicted> before = awaited_;
  for (const Eviction& eviction : decision.evictions) {
    const Workload& victim = decision.considered[eviction.candidate].sample.workload;
    const bool waits = std::ranges::any_of(before, [&](const Evicted& each) {
      return each.pod == victim.cgroup || !is_killed(each.pod, observation);
    });
    if (waits || victim.kind != WorkloadKind::pod) continue;
    ++counts_[eviction.metric_signal];
    awaited_.push_back({victim.cgroup, observation.at});
  }
}

}  // namespace forestall::replay
