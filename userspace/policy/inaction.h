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

// When the loop should have run before the kill.
struct LoopTimes {
  // The kernel's counters reported that a line of the domain was crossed after the last decision.
  std::optional<MonotonicTime> crossed = std::nullopt;
  // The loop had an event or a deadline at this time, and had not run by the time of the kill.
  // Short delays do not count.
  std::optional<MonotonicTime> away_since = std::nullopt;
};

struct InactionAnswer {
  Inaction inaction = Inaction::not_watched;
  std::optional<Duration> since_crossing;

  friend bool operator==(const InactionAnswer&, const InactionAnswer&) = default;
};

// `last` is the last decision before the kill, `observation` its input (with the kills known then),
// `state` the state after that step. Times after the kill are ignored.
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
//  2. not_watched: no threshold is relevant, among the cgroups of the observation.
//  warn_only:
//     the relevant ones warn or throttle, and do not evict.
//  3. acting: a victim of the agent is in flight or terminating, or was chosen by `last`, and is
//     inside the domain or contains it.
//  4. A threshold was met for its grace period: dry_run; no_victim or held_back, if that is
//     the reason of `last`; too_fast, or stopped if the loop was away.
//  5. stopped: the loop was away.
//  6. too_fast: `crossed` is given, and a hard threshold was not met at `last`.
//  7. in_grace: a soft threshold was met, or only soft ones can have been crossed since.
//  8. unread: no relevant signal was known.
//  9. below_threshold.
// A dry run signals nothing, so 1 and 3 do not apply. 5 and 6 do: without the dry run the kernel
// would still have been first.
//
// `since_crossing` counts from the earliest crossing that the answer is based on, otherwise from
// `crossed`; absent if neither is known. Never negative.
[[nodiscard]] InactionAnswer inaction(const Config& config, const State& state,
                                      const Observation& observation, const Decision& last,
                                      const OomKillEvent& kill, LoopTimes times);

}  // namespace forestall::policy
