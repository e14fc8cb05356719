// SPDX-License-Identifier: Apache-2.0
// Explains why the agent had not acted before the kernel did, from the policy's state. This is the
// operator's first question after an OOM kill.
#pragma once

#include <optional>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "model/oom_kill.h"
#include "policy/state.h"

namespace forestall::policy {

struct InactionAnswer {
  Inaction inaction = Inaction::not_watched;
  std::optional<Duration> since_crossing;

  friend bool operator==(const InactionAnswer&, const InactionAnswer&) = default;
};

// `last` is the last decision before the kill, `observation` its input (with the kills known then),
// `state` the result of that step. `crossed` is when a kernel counter reported the crossing of a
// line of the domain, if that was after `last`; a time later than the kill is ignored.
//
// The relevant thresholds are those on what was out of memory. For the node, including cpusets and
// policies (which are not watched), these are the ones on memory.available. For a memcg they are
// those on that cgroup, watched or the pods cgroup. A threshold on an ancestor is about another
// limit. If the sighting has no domain, those on every cgroup that contains the victim count, and
// the node's as well without a constraint.
//
// The first applicable one:
// 1. ours: the victim is in a cgroup that was signalled (terminating and stuck ones included) or
// that `last` selected, watched or not.
// 2. not_watched: no threshold is relevant, as far as the observation has the cgroups.
// 3. acting: a victim of the agent in flight or terminating, or selected by `last`, is in the
// domain or is an ancestor of it.
// 4. A threshold was met for its grace period: dry_run; nobody_to_kill, if `last` has that reason;
// too_fast.
// 5. too_fast: `crossed`, and a hard threshold was not met at `last`.
// 6. in_grace: a soft threshold was met, or only soft ones can have been crossed since.
// 7. unread: there was no reading.
// 8. below_threshold.
// In a dry run there is no signal, so 1 and 3 do not apply. 5 does: without dry run the kernel
// would still have been first.
//
// `since_crossing` counts from the first met threshold behind the answer, otherwise from `crossed`;
// absent if neither is known. Never negative.
[[nodiscard]] InactionAnswer inaction(const Config& config, const State& state,
                                      const Observation& observation, const Decision& last,
                                      const OomKillSighting& kill,
                                      std::optional<MonotonicTime> crossed);

}  // namespace forestall::policy
