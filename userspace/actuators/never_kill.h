// SPDX-License-Identifier: Apache-2.0
// Processes that are never signalled, whatever the decision: pid 1, kernel threads, this process
// and its ancestors. The policy protects whole cgroups; this is the last safeguard.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "actuators/protected_groups.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"

namespace forestall::actuators {

class NeverKill {
 public:
  // Reads the ancestors of this process. Once is enough: a parent that exits is replaced by one of
  // its own ancestors (kernel/exit.c find_new_reaper), so the list can only get shorter. The start
  // times distinguish an ancestor from a reused pid.
  static NeverKill of_this_process();

  // The reason why this process must not be signalled; empty if it may be.
  [[nodiscard]] std::string_view why_not(ProcessId process, bool kernel_thread) const;
  // Whether one of these pids is init's, this process' or that of an ancestor. A reused pid counts.
  [[nodiscard]] bool has_any_of(std::span<const pid_t> pids) const;
  // Whether this process or an ancestor is in the cgroup at `path` or below, or may be.
  [[nodiscard]] bool any_within(const kernel::CgroupTree& tree, std::string_view path) const;
  // Processes with a thread in one of these groups are not signalled either (members.h).
  void protect(std::shared_ptr<const ProtectedGroups> groups) { groups_ = std::move(groups); }
  [[nodiscard]] const ProtectedGroups* protected_groups() const { return groups_.get(); }

 private:
  std::vector<ProcessId> line_;  // this process first
  std::shared_ptr<const ProtectedGroups> groups_;
};

}  // namespace forestall::actuators
