// SPDX-License-Identifier: Apache-2.0
// Explains why the agent did not act before the kernel's OOM killer did, from the policy's state.
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
// `state` the state after that step. `crossed` is when the kernel's counters reported that a line
// of the domain was crossed after `last`; a time after the kill is ignored.
//
// The relevant thresholds are those on the domain that was out of memory. For the node they are all
// thresholds on the node's memory; cpusets and memory policies count as the node because nothing
// watches those. For a memcg they are the thresholds on that cgroup, watched or the pods cgroup. A
// threshold on one of its ancestors guards another limit. If the OOM event does not name the
// domain, thresholds on every cgroup that contains the victim are relevant, and also the node's if
// the event does not name the constraint either.
//
// The first answer that applies:
//  1. ours: the victim is in a cgroup that the agent signalled (terminating and stuck ones
//     included) or that `last` chose, watched or not.
//  2. not_watched: no threshold is relevant, as far as the observation knows the cgroups.
//  3. acting: a victim of the agent is in flight or terminating, or was chosen by `last`, and is
//     inside the domain or contains it.
//  4. A threshold was met for its grace period: dry_run; nobody_to_kill, if that is the reason of
//     `last`; too_fast.
//  5. too_fast: `crossed` is given, and a hard threshold was not met at `last`.
//  6. in_grace: a soft threshold was met, or only soft ones can have been crossed since.
//  7. unread: no relevant signal was known.
//  8. below_threshold.
// A dry run signals nothing, so 1 and 3 do not apply. 5 does: without the dry run the kernel would
// still have been first.
//
// `since_crossing` counts from the earliest crossing that the answer is based on, otherwise from
// `crossed`; absent if neither is known. Never negative.
[[nodiscard]] InactionAnswer inaction(const Config& config, const State& state,
                                      const Observation& observation, const Decision& last,
                                      const OomKillSighting& kill,
                                      std::optional<MonotonicTime> crossed);

}  // namespace forestall::policy
