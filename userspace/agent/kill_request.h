// SPDX-License-Identifier: Apache-2.0
// A kill on its way to a record. The loop, the watchdog and the guard all submit this, and
// to_record() alone makes the record.
#pragma once

#include <cstdint>
#include <optional>

#include "actuators/ladder.h"
#include "model/decision.h"
#include "model/observation.h"
#include "model/record.h"

namespace forestall::agent {

// repetition: of a kill of the same pod, by the loop.
enum class KillOrigin : std::uint8_t { loop, watchdog, guard, repetition };

struct KillRequest {
  KillOrigin origin = KillOrigin::loop;
  StageTimes stages;
  Observation observation;  // what was read for the decision
  // Evidence, candidates, and one eviction: that of the victim. Except for a kill by an evaluation
  // of the loop, to_record() fills in action and reason.
  Decision decision;
  std::optional<Prepared> prepared = std::nullopt;
  std::optional<CrossingBounds> crossing = std::nullopt;
  // What was sent already. Nothing: the loop has begun the kill on its ladder.
  std::optional<actuators::Signalled> signalled = std::nullopt;

  // REQUIRES: there is an eviction.
  [[nodiscard]] const WorkloadSample& victim() const {
    return decision.considered[*decision.victim()].sample;
  }
  // The wake of a kill outside of the loop: `subject` (inode 0: the node) used `usage` at `at`.
  void set_crossing(CgroupId subject, Bytes usage, MonotonicTime at);
  // Evicts decision.considered[candidate] at once.
  void set_victim(std::size_t candidate);
};

// Without its number and its outcome. `wall_time_ns` is CLOCK_REALTIME now.
[[nodiscard]] Record to_record(KillRequest request, std::int64_t wall_time_ns);

}  // namespace forestall::agent
