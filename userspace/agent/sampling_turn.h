// SPDX-License-Identifier: Apache-2.0
// Samples workloads in advance, a turn at a time: in between the loop serves other events.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "model/observation.h"
#include "sources/observer.h"

namespace forestall::agent {

// A workload takes 20 to 50 us, and milliseconds where memory.stat waits for a flush of counters.
inline constexpr Duration kSamplingTurn = std::chrono::microseconds(500);

// As Observer::add_some_workloads(), for one turn: at least one workload. False: those were all.
[[nodiscard]] inline bool sample_for_a_turn(const Clock& clock, sources::Observer& observer,
                                            Observation& observation, std::string_view subject,
                                            std::size_t& next) {
  const MonotonicTime end = clock.now() + kSamplingTurn;
  while (observer.add_some_workloads(observation, subject, next, 1)) {
    if (clock.now() >= end) return true;
  }
  return false;
}

}  // namespace forestall::agent
