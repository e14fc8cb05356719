// SPDX-License-Identifier: Apache-2.0
// The one rule for which processes a kill of a cgroup ends: those whose thread group leader is in
// the cgroup or below, except those with a thread in a protected group. Loop, watchdog and the
// guard's controller call members_of(); bpf/lib/approval.bpf.h has the same rule for the guard.
//
// Threads matter on cgroup v1 alone. On v2 all threads of a process share one memory cgroup.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "actuators/never_kill.h"
#include "actuators/process_lister.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

struct Members {
  std::vector<pid_t> present;         // sorted; includes the protected ones
  std::vector<pid_t> protected_pids;  // sorted; a thread of them is in a protected group
  std::optional<Error> unlisted;      // why `present` may be incomplete

  [[nodiscard]] bool may_be_signalled(pid_t pid) const;
};

// Fails only if the cgroup was removed (ENODEV or ENOENT).
[[nodiscard]] Result<Members> members_of(const kernel::CgroupDir& cgroup,
                                         const NeverKill& never_kill);
// The same by the lister, and by files where it cannot answer.
[[nodiscard]] Result<Members> members_of(const kernel::CgroupDir& cgroup,
                                         const NeverKill& never_kill, const ProcessLister& lister);

}  // namespace forestall::actuators
