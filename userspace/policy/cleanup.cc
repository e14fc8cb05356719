// SPDX-License-Identifier: Apache-2.0
#include "policy/cleanup.h"

#include <algorithm>

#include "base/parse.h"
#include "policy/grace.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

bool waits_for_all(const Config& config, const Threshold& threshold) {
  return config.compat.one_kill_until_cleanup || !has_usage_line(threshold.signal);
}

bool covers(const KillProgress& kill, const Evidence& crossing) {
  return crossing.cgroup == CgroupId{} || path_is_within(kill.path, crossing.subject) ||
         path_is_within(crossing.subject, kill.path);
}

bool has_cgroup(const std::vector<WorkloadSample>& workloads, CgroupId cgroup) {
  return std::any_of(workloads.begin(), workloads.end(), [&](const WorkloadSample& sample) {
    return sample.workload.cgroup == cgroup;
  });
}

// The earlier of two times; nullopt is never.
std::optional<MonotonicTime> sooner(std::optional<MonotonicTime> a,
                                    std::optional<MonotonicTime> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

void consider_terminating(const Config& config, const Evidence& crossing, const KillProgress& kill,
                          MonotonicTime now, CleanupWait& wait) {
  const Threshold& threshold = crossing.threshold;
  if (!threshold.hard()) {
    wait.pending = true;
    return;
  }
  if (!kill.kill_at) return;
  const Duration grace =
      kills_at_once(config, threshold) ? Duration::zero() : config.compat.hard_grace;
  const MonotonicTime last_chance =
      from_ns(subtract({to_ns(*kill.kill_at)}, {grace.count()}).count);
  const MonotonicTime overdue = later(*kill.kill_at, kOverdue);
  if (now < last_chance) {
    wait.until = sooner(wait.until, last_chance);
  } else if (now < overdue) {
    wait.pending = true;
    wait.until = sooner(wait.until, overdue);
  }
}

}  // namespace

CleanupWait cleanup_wait(const Config& config, const Evidence& crossing,
                         const Observation& observation) {
  CleanupWait wait;
  const bool for_all = waits_for_all(config, crossing.threshold);
  for (const KillProgress& kill : observation.kills) {
    if (!covers(kill, crossing)) continue;
    if (kill.state == KillState::terminating) {
      consider_terminating(config, crossing, kill, observation.at, wait);
      continue;
    }
    if (!for_all || kill.state == KillState::failed) continue;
    if (elapsed(kill.started, observation.at) >= kCleanupTimeout) continue;
    if (kill.state == KillState::in_flight) {
      wait.pending = true;
    } else if (!observation.workloads) {
      wait.unread = true;
    } else if (has_cgroup(*observation.workloads, kill.cgroup)) {
      wait.pending = true;
    } else {
      continue;
    }
    wait.until = sooner(wait.until, later(kill.started, kCleanupTimeout));
  }
  return wait;
}

}  // namespace forestall::policy
