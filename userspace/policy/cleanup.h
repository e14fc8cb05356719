// SPDX-License-Identifier: Apache-2.0
// Waits for the cleanup of the last victim before the next one is selected
// (pkg/kubelet/eviction/eviction_manager.go waitForPodsCleanup).
//
// Kubelet blocks until every evicted pod is gone, at most 30 s. Here only the affected resource
// waits: disk space, inodes and process IDs, where the amount that a victim will free is unknown.
// Memory uses credit instead (policy/credit.h), unless Compat::one_kill_until_cleanup is set. A
// slow soft eviction does not delay a hard one: a victim within its grace period is a candidate
// again for a hard threshold that would kill it sooner.
#pragma once

#include <optional>

#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::policy {

// eviction_manager.go podCleanupTimeout.
inline constexpr Duration kCleanupTimeout = std::chrono::seconds(30);
// Once a SIGKILL is overdue by this much, it is no longer waited for.
inline constexpr Duration kOverdue = std::chrono::seconds(1);

struct CleanupWait {
  bool pending = false;
  // The workloads were not read, so it is unknown whether the victims' cgroups still exist.
  bool unread = false;
  // When this changes without an event; nullopt: not before a kill advances.
  std::optional<MonotonicTime> until;
};

// Whether the threshold of `crossing` has to wait for a kill:
// - It waits for a terminating one at its subject, an ancestor or a descendant. Exceptions: the
//   threshold is hard and its own grace ends before the pending SIGKILL, or that SIGKILL is
//   overdue.
// - For the waiting resources it waits for any kill begun less than 30 s ago that is in flight. It
//   also waits for one that has ended (or is stuck) while the workload's cgroup is observed.
[[nodiscard]] CleanupWait cleanup_wait(const Config& config, const Evidence& crossing,
                                       const Observation& observation);

}  // namespace forestall::policy
