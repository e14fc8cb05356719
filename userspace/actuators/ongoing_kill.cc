// SPDX-License-Identifier: Apache-2.0
#include "actuators/ongoing_kill.h"

#include <algorithm>

namespace forestall::actuators {

Attempt& OngoingKill::attempt(Rung rung) {
  const auto found = std::ranges::find(outcome.attempts, rung, &Attempt::rung);
  Attempt& entry = found != outcome.attempts.end()
                       ? *found
                       : outcome.attempts.emplace_back(Attempt{rung, {}, 0, std::nullopt});
  entry.at = context.clock.now();
  return entry;
}

void add(const Signalled& signalled, Outcome& outcome) {
  outcome.signalled = std::min(outcome.signalled.value_or(signalled.at), signalled.at);
  outcome.processes = std::max(outcome.processes, signalled.processes);
  // Memory that came back before our first read was also freed by that kill.
  // `signalled.usage_before` may be much older, and a victim grows.
  const Bytes before = std::max(signalled.usage_before, outcome.usage_before);
  outcome.freed += before - outcome.usage_before;
  outcome.usage_before = before;
  // It was killed by that part of the agent, and nothing was left for the ladder.
  if (outcome.state != KillState::failed || !outcome.exited) return;
  outcome.state = KillState::released;
  outcome.released = outcome.exited;
  for (Attempt& each : outcome.attempts) each.failure.reset();
}

}  // namespace forestall::actuators
