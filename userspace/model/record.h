// SPDX-License-Identifier: Apache-2.0
// A record: one complete incident. Exports write only records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "model/crossing.h"
#include "model/decision.h"
#include "model/kill.h"
#include "model/observation.h"
#include "model/oom_kill.h"
#include "model/outcome.h"

namespace forestall {

// When each stage of one incident was reached, on CLOCK_MONOTONIC.
struct StageTimes {
  MonotonicTime crossed;   // the cause of the wake (Wake::at); no bound of the crossing
  MonotonicTime woken;     // the loop ran
  MonotonicTime observed;  // fresh values were read
  MonotonicTime decided;   // the policy answered

  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

// Set if the victim was pre-ranked before the threshold was met: the considered candidates are the
// first of that ranking, with fresh values.
struct Prepared {
  Duration age{0};            // of that ranking
  std::size_t workloads = 0;  // number of ranked workloads

  friend bool operator==(const Prepared&, const Prepared&) = default;
};

// A kill of which the victim was signalled; its outcome may not be known yet.
struct BegunKill {
  bool dry_run = false;  // no process was signalled and none will be
  KillState state = KillState::in_flight;

  friend bool operator==(const BegunKill&, const BegunKill&) = default;
};

struct Record {
  std::uint64_t sequence = 0;     // counts up by one within one run of the agent
  std::int64_t wall_time_ns = 0;  // CLOCK_REALTIME of the decision, nanoseconds since the epoch
  Observation observation;        // the input of the decision
  Decision decision;
  StageTimes stages;
  std::optional<Outcome> outcome;  // of a completed kill
  // Set: this record reports a kill by the kernel; observation and decision are the last ones
  // before it.
  std::optional<OomKill> oom_kill;
  std::optional<Prepared> prepared =
      std::nullopt;  // nullopt: everything was read for this decision
  // Nullopt: no threshold drives the decision, or it is of an agent that did not measure it.
  std::optional<CrossingBounds> crossing = std::nullopt;
  // Nullopt: no kill, no process was left to signal, or it is of an agent that did not record it.
  std::optional<BegunKill> begun = std::nullopt;

  friend bool operator==(const Record&, const Record&) = default;
};

}  // namespace forestall
