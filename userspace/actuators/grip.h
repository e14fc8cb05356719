// SPDX-License-Identifier: Apache-2.0
// What is held of a likely victim before there is a reason to kill it: its cgroup's directory, its
// usage file, a pidfd of each process. Taken while there is time, it leaves one reading of
// cgroup.procs between the decision and the first SIGKILL.
//
// Holding proves nothing by itself: a process may leave the cgroup, or exit. Whoever signals reads
// the list again first and leaves out who is not on it; whoever is new comes after the signal.
//
// Immutable and shared: the loop and the watchdog's thread use the same one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "actuators/untouchable.h"
#include "actuators/usage_meter.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"
#include "model/workload.h"

namespace forestall::actuators {

class Grip {
 public:
  // Of a workload with more processes these many are held; the others wait for the signal.
  static constexpr std::size_t kProcessesMax = 64;

  // At most `processes_max` processes. ESTALE when another cgroup is at the path by now; ENOENT or
  // ENODEV when none is.
  static Result<std::shared_ptr<const Grip>> take(const kernel::CgroupTree& tree,
                                                  const Untouchables& untouchables,
                                                  const Workload& workload,
                                                  std::size_t processes_max = kProcessesMax);

  [[nodiscard]] CgroupId cgroup() const { return directory_->id(); }
  [[nodiscard]] const std::shared_ptr<const kernel::CgroupDir>& directory() const {
    return directory_;
  }
  // Null when the usage file cannot be opened.
  [[nodiscard]] const std::shared_ptr<const UsageMeter>& meter() const { return meter_; }
  // Those that may be signalled, by pid.
  [[nodiscard]] std::span<const kernel::ProcessRef> processes() const { return processes_; }
  // Somebody in there must not be signalled: cgroup.kill is out of the question.
  [[nodiscard]] bool has_untouchable() const { return has_untouchable_; }
  // Whether it holds just who is there now; costs a reading of the list.
  [[nodiscard]] bool is_current() const;

 private:
  Grip() = default;
  std::shared_ptr<const kernel::CgroupDir> directory_;
  std::shared_ptr<const UsageMeter> meter_;
  std::vector<kernel::ProcessRef> processes_;
  std::vector<pid_t> present_;  // when it was taken, sorted
  bool has_untouchable_ = false;
};

}  // namespace forestall::actuators
