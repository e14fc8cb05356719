// SPDX-License-Identifier: Apache-2.0
// Checks the oom_score_adj of containers against their QoS class. Kubelet has the runtime set it
// once, at start (pkg/kubelet/qos/policy.go), and never checks it again. The agent corrects it if
// the operator enables that (`oomScoreAdj: enforce`).
//
// A container's main process, the one whose parent is outside, must have exactly the expected
// value. Other processes may have a higher value (PostgreSQL and OpenSSH raise their children's),
// but not a lower one.
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

// Compares every process of each container, and corrects deviations if `enforce` is set. A process
// is pinned by its open /proc directory and then confirmed in the container's cgroup, so a reused
// pid is never changed. Removed containers and exited processes are skipped. Opens files: not
// called between a crossing and a kill. `proc` is the procfs of the agent's own pid namespace,
// which cgroup.procs uses.
[[nodiscard]] std::vector<OomScoreAdjFinding> check_oom_score_adj(
    const kernel::CgroupTree& tree, std::span<const ExpectedOomScoreAdj> expected, bool enforce,
    const std::string& proc = "/proc");

}  // namespace forestall::actuators
