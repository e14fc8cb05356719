// SPDX-License-Identifier: Apache-2.0
// The memory cgroup of a process that must never be killed (the agent, pid 1).
//
// In a cgroup namespace /proc/PID/cgroup is relative to the namespace ("/" for the agent in a
// container), which would leave the agent's own pod unprotected. The path is therefore checked
// against the group's cgroup.procs. If the process is not listed there, the tree is searched for
// it. Both paths are protected then: protecting too much is safe. For the same reason, the last
// paths stay protected if the process is found nowhere.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"

namespace forestall::sources {

class OwnPlace {
 public:
  // `cgroup_file` is /proc/PID/cgroup of the process, `pid` its number in our pid namespace.
  OwnPlace(std::string cgroup_file, pid_t pid) : cgroup_file_(std::move(cgroup_file)), pid_(pid) {}

  // Paths to protect; never the root. Opens files: called at refresh, not under pressure.
  [[nodiscard]] std::vector<std::string> paths(const kernel::CgroupTree& tree);

 private:
  std::string cgroup_file_;
  pid_t pid_;
  std::string searched_;           // where the last search found it
  std::vector<std::string> last_;  // when it was found
};

}  // namespace forestall::sources
