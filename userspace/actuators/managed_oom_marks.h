// SPDX-License-Identifier: Apache-2.0
// The extended attributes that systemd-oomd leaves on a cgroup that it kills. PID 1 compares
// user.oomd_ooms when the cgroup becomes empty: if it has grown, the result of the unit is
// "oom-kill".
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/workload.h"

namespace forestall::actuators {

// Right after the signals: adds 1 to user.oomd_ooms and the number of its processes that are left
// to user.oomd_kill. An error names what could not be set; the kill does not depend on it. A cgroup
// that was removed and created again is not marked.
[[nodiscard]] Result<void> mark_managed_oom(const kernel::CgroupTree& tree, const Workload& victim);

// Adds to a number in an attribute; without it, to 0. An error: the attribute has no number, or the
// sum is too large.
[[nodiscard]] Result<void> add_to_attribute(int directory, const char* name, std::uint64_t number);

}  // namespace forestall::actuators
