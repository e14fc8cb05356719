// SPDX-License-Identifier: Apache-2.0
// The workload that a crossing would probably cost, as the agent pre-ranked it.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "model/decision.h"
#include "model/signal.h"

namespace forestall {

// One subject that is near a hard memory threshold.
struct NextVictim {
  std::string subject;                       // "node", or the path of the cgroup
  Signal signal = Signal::memory_available;  // of the nearest threshold there
  std::optional<MonotonicTime> ranked_at;    // nullopt: not ranked yet
  std::optional<Candidate> candidate;        // nullopt: unknown, or none may be killed
  std::string before_next_by;                // policy::deciding_rule; empty: there is no second one
  // Why a kill for this subject is held back, or would be at the crossing; nullopt: it is not, as
  // far as that is known before.
  std::optional<Reason> held_back;
};

}  // namespace forestall
