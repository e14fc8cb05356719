// SPDX-License-Identifier: Apache-2.0
// oom_score_adj of containers as their QoS class asks for it: kubelet has the runtime set it once,
// at start (pkg/kubelet/qos/policy.go), and nobody looks again. Here it is looked at, and set where
// the operator wants that (`oomScoreAdj: enforce`).
//
// A container's main process, the one whose parent is outside, must have exactly the expected
// value. Others may be easier to kill than that, which is a program's own choice (PostgreSQL and
// OpenSSH raise their children's), but not harder.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

struct ExpectedOomScoreAdj {
  std::string container;  // for messages: "default/web-0: app"
  std::string cgroup;     // path of the container's cgroup in the memory hierarchy
  std::int64_t value = 0;
};

struct OomScoreAdjFinding {
  std::string container;
  pid_t pid = 0;
  std::int64_t found = 0;
  std::int64_t expected = 0;
  bool corrected = false;
  std::optional<Error> failure;  // of the correction: EACCES without CAP_SYS_RESOURCE
};

// Compares every process of each container, and sets what deviates when `enforce` is given. A
// process is pinned by its open /proc directory, and found in the container's cgroup after that,
// so that a reused pid is never set. Containers and processes that are gone are passed over.
// Opens files: not on the way from a crossing to a kill. `proc` is the procfs of this process' own
// pid namespace, whose pids cgroup.procs speaks of.
[[nodiscard]] std::vector<OomScoreAdjFinding> check_oom_score_adj(
    const kernel::CgroupTree& tree, std::span<const ExpectedOomScoreAdj> expected, bool enforce,
    const std::string& proc = "/proc");

}  // namespace forestall::actuators
