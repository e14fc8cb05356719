// SPDX-License-Identifier: Apache-2.0
// Processes in a victim's cgroup that started after another part of the agent had killed it: the
// loop was stopped meanwhile, and the workload was started again. No kill may end these.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "actuators/process_snapshot.h"
#include "base/clock.h"

namespace forestall::actuators {

// What starts within such a time after the signal is a fork that the signal missed: the kubelet
// restarts a container after a second at the earliest.
inline constexpr Duration kForksWithin = std::chrono::seconds(1);

// Thread rule: one thread.
class NewerProcesses {
 public:
  // Of a kill that was signalled at `signalled` and is completed at `now`. The host had been
  // suspended for at least `suspended_before` then (SuspendedTimes): if for longer, processes that
  // started so long before the kill count as newer too. If the kill is completed within
  // kForksWithin, no process counts as newer, and neither before this call.
  void set_kill(MonotonicTime signalled, Duration suspended_before, MonotonicTime now);
  // Moves processes that started more than kForksWithin after the kill from `found` and `present`
  // to the refused ones. A process whose start cannot be read counts as newer.
  void leave_out(ProcessSnapshot& snapshot);
  // Those that the last call left out, sorted.
  [[nodiscard]] std::span<const pid_t> pids() const { return pids_; }

 private:
  std::optional<Duration> last_fork_;  // CLOCK_BOOTTIME: what starts later is newer
  std::vector<pid_t> pids_;
};

}  // namespace forestall::actuators
