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

// `last` is the last decision before it and what it was made on: its evidence says what was met.
// `crossed` is when the kernel's own counters told that a line of the domain was crossed, if that
// was after `last`.
[[nodiscard]] InactionAnswer inaction(const Config& config, const State& state,
                                      const Observation& observation, const Decision& last,
                                      const OomKillSighting& kill,
                                      std::optional<MonotonicTime> crossed);

}  // namespace forestall::policy
