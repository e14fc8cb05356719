// SPDX-License-Identifier: Apache-2.0
// A record: one thing that happened, whole. Exports write records, nothing else does.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "model/decision.h"
#include "model/observation.h"
#include "model/oom_kill.h"
#include "model/outcome.h"

namespace forestall {

// When each stage of one incident was reached, on CLOCK_MONOTONIC.
struct StageTimes {
  MonotonicTime crossed;   // the kernel saw the cause (Wake::at)
  MonotonicTime woken;     // the loop ran
  MonotonicTime observed;  // fresh values were read
  MonotonicTime decided;   // the policy answered

  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

struct Record {
  std::uint64_t sequence = 0;     // counts up by one within one run of the agent
  std::int64_t wall_time_ns = 0;  // CLOCK_REALTIME of the decision, nanoseconds since the epoch
  Observation observation;        // what the decision was made on
  Decision decision;
  StageTimes stages;
  std::optional<Outcome> outcome;  // of a kill, once it is complete
  // Set: this record tells of a kill by the kernel; the observation and the decision are the last
  // ones before it.
  std::optional<OomKill> oom_kill;

  friend bool operator==(const Record&, const Record&) = default;
};

}  // namespace forestall
