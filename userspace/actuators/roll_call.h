// SPDX-License-Identifier: Apache-2.0
// Who is in a victim's cgroup, each held by pidfd and proven to be in it.
//
// Between reading a pid in cgroup.procs and opening a pidfd for it, its process may have exited and
// the pid may be somebody else's; or it may have been moved elsewhere. So the list is read a second
// time *after* the pidfds are open: a pid that is listed then, and whose pidfd still reaches a
// process that was not reaped, was that very process' at the time of the second reading. Compared
// with /proc/PID/cgroup this is one file instead of one per process, and it goes by the cgroup's
// open directory instead of a path that somebody could have made again.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "actuators/untouchable.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"

namespace forestall::actuators {

enum class Hold : std::uint8_t {
  by_pidfd,
  by_nothing,  // pidfd is not usable here: only count who is there
};

struct RollCall {
  std::vector<kernel::ProcessRef> found;  // not known before; in the cgroup, may be signalled
  std::vector<pid_t> present;             // everybody in the cgroup, sorted, refused ones too
  // Everybody listed was known, or stands in one of the two counts below. When it is false,
  // somebody was found, or left while being opened and may have forked meanwhile: call again.
  bool quiet = true;
  std::uint32_t refused = 0;     // in the cgroup, must not be signalled
  std::uint32_t unheld = 0;      // in the cgroup, could not be held
  std::optional<Error> refusal;  // why the first of them was refused
  std::optional<Error> failure;  // why the first of them could not be held
};

// The processes in `cgroup` and below. Those in `known` (sorted) are not opened again. When `only`
// is given, everybody else is treated as if not there (the warm-up's child).
// ENODEV when the cgroup was removed.
[[nodiscard]] Result<RollCall> call_roll(const kernel::CgroupDir& cgroup,
                                         const Untouchables& untouchables,
                                         std::span<const pid_t> known, Hold hold,
                                         std::optional<pid_t> only);

// The processes in `cgroup` and below, sorted, each once.
[[nodiscard]] Result<std::vector<pid_t>> sorted_processes(const kernel::CgroupDir& cgroup);

}  // namespace forestall::actuators
