// SPDX-License-Identifier: Apache-2.0
// Approves processes for the guard's lists: those of a workload that may be killed, each by pidfd,
// so that all that is read belongs to one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actuators/never_kill.h"
#include "base/bytes.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "model/workload.h"

namespace forestall::agent {

// What of a workload was approved.
enum class Approved : std::uint8_t {
  none,  // of its processes
  some,
  all,  // also if it has none
};

// Thread rule: the thread that prepares lists (GuardPrograms::identify()).
class GuardApproval {
 public:
  // Both outlive the object.
  GuardApproval(kernel::GuardPrograms& guard, const actuators::NeverKill& never_kill)
      : guard_(guard), never_kill_(never_kill) {}

  // Appends the workload's processes, the largest first, until `out` has `size_max`. The first has
  // the workload's `expected`, the others 0. Where none of its processes could be approved, a list
  // ends before it, because the guard must not kill the next workload in its place.
  [[nodiscard]] Approved add_processes(const kernel::CgroupDir& workload, std::uint32_t group,
                                       Bytes expected, std::size_t size_max,
                                       std::vector<abi_guard_victim>& out);

 private:
  kernel::GuardPrograms& guard_;
  const actuators::NeverKill& never_kill_;
};

}  // namespace forestall::agent
