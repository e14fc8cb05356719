// SPDX-License-Identifier: Apache-2.0
// Snapshot of the processes in a victim's cgroup, each pinned by pidfd and verified to be in it.
//
// Between reading a pid in cgroup.procs and opening its pidfd, the process may exit and its pid be
// reused, or it may be moved to another cgroup. The list is therefore read a second time *after*
// the pidfds are open. A pid that is listed then, and whose pidfd reaches a process that is not yet
// reaped, belonged to that process at the time of the second read. Unlike /proc/PID/cgroup this
// needs one file instead of one per process. It uses the open directory of the cgroup, not a path
// that may have been created again.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "actuators/never_kill.h"
#include "actuators/process_lister.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"

namespace forestall::actuators {

enum class Pinning : std::uint8_t {
  by_pidfd,
  none,  // pidfd is not usable here: only count the processes
};

struct ProcessSnapshot {
  std::vector<kernel::ProcessRef> found;  // newly found; in the cgroup, may be signalled
  std::vector<pid_t> present;  // all processes in the cgroup, sorted, refused ones included
  // Every listed process was known or is in one of the two counts below. If false, a process was
  // found, or exited while it was opened and may have forked: call again.
  bool quiet = true;
  std::uint32_t refused = 0;     // in the cgroup, must not be signalled
  std::uint32_t unpinned = 0;    // in the cgroup, could not be pinned
  std::optional<Error> refusal;  // why the first of them was refused
  std::optional<Error> failure;  // why the first of them could not be pinned
  // Why `present` may be incomplete. Then it is not quiet, and what is missing has no count.
  std::optional<Error> unlisted;
};

// Why the list or the pins of a snapshot are incomplete: a refusal comes first.
[[nodiscard]] std::optional<Error> why_incomplete(const ProcessSnapshot& snapshot);

// The processes in `cgroup` and its descendants. Those in `known` (sorted) are not opened again. If
// `only` is given, all other processes are ignored (the warm-up's child). Where `lister` exists, it
// lists them. Fails only if the cgroup was removed (ENODEV or ENOENT).
[[nodiscard]] Result<ProcessSnapshot> take_process_snapshot(
    const kernel::CgroupDir& cgroup, const NeverKill& never_kill, std::span<const pid_t> known,
    Pinning pinning, std::optional<pid_t> only, const ProcessLister& lister = {});

}  // namespace forestall::actuators
