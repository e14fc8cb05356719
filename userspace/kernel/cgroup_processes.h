// SPDX-License-Identifier: Apache-2.0
// The processes of a cgroup and its descendants. A process belongs to the group of its leader.
//
// On cgroup v1 each thread may be in a group of its own, and cgroup.procs lists a process if any of
// its threads is there. A process whose leader has exited belongs to each group of its threads.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::kernel {

struct ProcessList {
  std::vector<pid_t> pids;       // sorted, each once
  std::vector<pid_t> threads;    // cgroup v1: all threads in these groups, sorted; v2: none
  std::size_t groups = 0;        // visited
  std::optional<Error> failure;  // why the list may be incomplete: the first part not read
};

// ENODEV or ENOENT: `cgroup` was removed. Every other failure leaves what could be listed.
[[nodiscard]] Result<ProcessList> list_processes(const CgroupDir& cgroup);

// Appends the processes and threads of a v1 group alone; of a failure, those that could be read.
// ENODEV: it was removed.
[[nodiscard]] Result<void> processes_led_in(const CgroupDir& group, ProcessList& list);

}  // namespace forestall::kernel
