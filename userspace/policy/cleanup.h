// SPDX-License-Identifier: Apache-2.0
// Waiting for the last victim to be cleaned up before the next one is chosen (kubelet.md §3
// "Loop", §12.5; eviction_manager.go waitForPodsCleanup).
//
// Kubelet stands still until every evicted pod is gone, at most 30 s. Here only the resource
// concerned waits: disk space, inodes and process numbers, of which nothing says how much a victim
// will give back. Memory goes by credit (policy/credit.h) unless Compat::one_kill_until_cleanup
// says otherwise. And no slow soft eviction holds up a hard one: a victim within its grace period
// counts as a candidate again for a hard threshold that would end it sooner.
#pragma once

#include <optional>

#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::policy {

// eviction_manager.go podCleanupTimeout.
inline constexpr Duration kCleanupTimeout = std::chrono::seconds(30);
// So long after it was due a SIGKILL that did not come is not counted on any more.
inline constexpr Duration kOverdue = std::chrono::seconds(1);

struct CleanupWait {
  bool pending = false;
  // Whether the victims' cgroups are still there is not known: the workloads were not read.
  bool unread = false;
  // When that changes by itself; nothing: not before a kill advances.
  std::optional<MonotonicTime> until;
};

// Whether the threshold of `crossing` has to wait for a kill:
// - one that is terminating at or around its subject, or inside it, unless the threshold is hard
//   and its own grace ends before the SIGKILL that is due, or that SIGKILL is overdue;
// - for the resources that wait, any kill begun less than 30 s ago that is in flight, or over (or
//   stuck) while its workload's cgroup is still in the observation.
[[nodiscard]] CleanupWait cleanup_wait(const Config& config, const Evidence& crossing,
                                       const Observation& observation);

}  // namespace forestall::policy
