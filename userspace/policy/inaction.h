// SPDX-License-Identifier: Apache-2.0
// Why the agent had not acted before the kernel did: an answer to the operator's first question
// after an OOM kill, from what the policy knew.
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

// `last` is the last decision before the kill, `observation` what it was made on (with the kills
// known then), `state` what came out of that step. `crossed` is when the kernel's own counters told
// that a line of the domain was crossed, if that was after `last`; one later than the kill is
// ignored.
//
// The thresholds that count are those on what was out of memory: for the node (cpusets and policies
// included: nothing watches those) the ones on memory.available; for a memcg those on that very
// cgroup, watched or the pods cgroup. A threshold on a cgroup around it guards another limit.
// If the sighting does not tell the domain, those on every cgroup that holds the victim count, and
// the node's as well if it does not tell the constraint either.
//
// The first that holds:
//  1. ours: the victim lies in a cgroup that was signalled (terminating and stuck ones included)
//     or that `last` chose. Watched or not.
//  2. not_watched: no threshold counts, as far as the observation knows the cgroups.
//  3. acting: a victim of ours in flight or terminating, or chosen by `last`, lies in the domain,
//     or around it.
//  4. A threshold was met for its grace period: dry_run; nobody_to_kill, if that is what `last`
//     says; too_fast.
//  5. too_fast: `crossed`, and a hard threshold was not met at `last`.
//  6. in_grace: a soft threshold was met, or only soft ones can have been crossed since.
//  7. unread: there was no reading. 8. below_threshold.
// In a dry run nobody was signalled: 1 and 3 do not hold, while 5 does: had it not been dry, the
// kernel would still have been first.
//
// `since_crossing` counts from the first of what the answer is made of that was met, else from
// `crossed`; absent where neither is known. Never negative.
[[nodiscard]] InactionAnswer inaction(const Config& config, const State& state,
                                      const Observation& observation, const Decision& last,
                                      const OomKillSighting& kill,
                                      std::optional<MonotonicTime> crossed);

}  // namespace forestall::policy
