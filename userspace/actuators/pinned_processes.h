// SPDX-License-Identifier: Apache-2.0
// A pinned likely victim: its cgroup's directory, its usage file and a pidfd of each process,
// opened before there is a reason to kill. With these, only one read of cgroup.procs is left
// between the decision and the first SIGKILL.
//
// Pinned processes may have left the cgroup or exited. Before a signal the list is read again, and
// processes that are not on it are skipped. Processes that are new on it are signalled afterwards.
//
// Immutable and shared between the loop and the watchdog's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actuators/members.h"
#include "actuators/never_kill.h"
#include "actuators/usage_meter.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"
#include "model/workload.h"

namespace forestall::actuators {

class PinnedProcesses {
 public:
  // Limit of pinned processes per workload; further ones are opened after the first signal.
  static constexpr std::size_t kProcessesMax = 64;

  // Pins at most `processes_max` processes. ESTALE if another cgroup is at the path by now; ENOENT
  // or ENODEV if there is none.
  static Result<std::shared_ptr<const PinnedProcesses>> take(
      const kernel::CgroupTree& tree, const NeverKill& never_kill, const Workload& workload,
      std::size_t processes_max = kProcessesMax);

  [[nodiscard]] CgroupId cgroup() const { return directory_->id(); }
  [[nodiscard]] const std::shared_ptr<const kernel::CgroupDir>& directory() const {
    return directory_;
  }
  // Null if the usage file cannot be opened.
  [[nodiscard]] const std::shared_ptr<const UsageMeter>& meter() const { return meter_; }
  // Processes that may be signalled, by pid.
  [[nodiscard]] std::span<const kernel::ProcessRef> processes() const { return processes_; }
  // The cgroup has a process that must not be signalled, so cgroup.kill must not be used.
  [[nodiscard]] bool has_refused() const { return has_refused_; }
  // The current processes of the cgroup. Before a signal: pinned ones may be protected by now.
  // `lister`: on the loop's thread only.
  [[nodiscard]] Result<Members> members(const ProcessLister& lister = {}) const {
    return members_of(*directory_, never_kill_, lister);
  }
  // A SIGKILL to those that are listed just now and still reachable, so they are in the cgroup
  // (process_snapshot.h). The processes are owned by this object.
  struct Killed {
    [[nodiscard]] std::span<const kernel::ProcessRef* const> reached() const {
      return {processes.data(), count};
    }
    std::array<const kernel::ProcessRef*, kProcessesMax> processes{};
    std::uint32_t count = 0;
    std::optional<MonotonicTime> at;  // of the first signal
    std::optional<Error> failure;     // why the first other one could not be signalled
  };
  [[nodiscard]] Killed kill(const Members& listed, const Clock& clock) const;
  // Whether it covers exactly the current processes; costs a read of the list.
  [[nodiscard]] bool is_current() const;

 private:
  explicit PinnedProcesses(const NeverKill& never_kill) : never_kill_(never_kill) {}
  const NeverKill never_kill_;  // a copy, for the watchdog's thread
  std::shared_ptr<const kernel::CgroupDir> directory_;
  std::shared_ptr<const UsageMeter> meter_;
  std::vector<kernel::ProcessRef> processes_;
  std::vector<pid_t> present_;  // when it was pinned, sorted
  bool has_refused_ = false;
};

}  // namespace forestall::actuators
