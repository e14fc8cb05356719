// SPDX-License-Identifier: Apache-2.0
// The first SIGKILL of a kill, before the cgroup's directory is opened (process_lister.h).
//
// As in process_snapshot.h, the processes are listed, opened and listed again: one that is on the
// second list, and started when the opened one did, was in the cgroup then.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "actuators/never_kill.h"
#include "actuators/process_lister.h"
#include "base/clock.h"
#include "kernel/process_ref.h"
#include "model/workload.h"

namespace forestall::actuators {

struct FirstBlow {
  std::vector<kernel::ProcessRef> reached;  // signalled
  MonotonicTime opened;                     // when they were, and listed again
  std::optional<MonotonicTime> at;          // of the first signal; nullopt: none was signalled
  std::optional<Error> failure;             // why the first other one could not be signalled
  std::vector<pid_t> present;               // on the second list, sorted
  bool all_may_end = true;                  // none of `present` must be spared
};

// Opens at most this many: each takes some 30 us, and the first waits for all.
inline constexpr std::size_t kFirstBlowMax = 64;

// None is signalled if the cgroup got a path meanwhile that may be protected.
//
// A process that may be spared for a thread elsewhere (members.h) is left to the caller.
// Those in `known` (sorted) are signalled already, and not again. If `only` is given, all others
// are ignored (the warm-up's child). REQUIRES: lister.exists().
[[nodiscard]] FirstBlow strike_first(const ProcessLister& lister, const Workload& victim,
                                     const NeverKill& never_kill, const Clock& clock,
                                     std::span<const pid_t> known = {},
                                     std::optional<pid_t> only = std::nullopt);

}  // namespace forestall::actuators
