// SPDX-License-Identifier: Apache-2.0
// When a memory.high is lifted, by how much, and when it is restored.
//
// Above memory.high the kernel reclaims from a cgroup and delays its allocations. A cgroup that
// needs more than its memory.high, and is not killed, can stay like this without end. So it is
// lifted if all of these hold for a given time:
// - usage is at memory.high, or not more than a sixteenth below it;
// - the cgroup was above memory.high in the last 5 s (memory.events.local, "high");
// - in at least 80 % of the time all its tasks that had work waited for memory (PSI, "full").
//
// A cgroup with one task that runs is not stalled, however long its other tasks wait: its "full"
// does not grow. It makes some progress, and stays throttled.
//
// It is restored after the same time in which usage was more than a sixteenth below it and the
// cgroup was not stalled. A missing reading begins each of these times anew.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/observation.h"
#include "model/threshold.h"
#include "model/throttle_reading.h"

namespace forestall::policy {

// The time that memory QoS has.
inline constexpr Duration kThrottleStallMax = std::chrono::seconds(30);
inline constexpr int kStalledPercent = 80;
inline constexpr Duration kThrottleEventAge = std::chrono::seconds(5);
// A lift by less would end at once.
inline constexpr Bytes kLiftMin = mib(4);

struct ThrottleLiftState {
  std::optional<ThrottleReading> last;
  std::optional<MonotonicTime> event_at;         // when high_events last increased
  std::optional<ThrottleReading> stalled_since;  // the first reading of the stall
  std::optional<MonotonicTime> calm_since;

  friend bool operator==(const ThrottleLiftState&, const ThrottleLiftState&) = default;
};

struct ThrottleLimits {
  Bytes planned;        // memory.high without a lift
  Bytes present;        // memory.high now
  Duration stall_max;   // the time
  bool lifted = false;  // present is a lifted one
};

enum class ThrottleAction : std::uint8_t { keep, lift, restore };

struct ThrottleLiftStep {
  ThrottleLiftState next;
  ThrottleAction action = ThrottleAction::keep;
  Duration stalled{0};  // how long it has been stalled
};

// `lift` is repeated at each further reading of the same stall. After a lift the caller begins with
// a new state. The caller may set event_at at an event that has no reading.
[[nodiscard]] ThrottleLiftStep step_throttle_lift(const ThrottleLiftState& state,
                                                  const std::optional<ThrottleReading>& reading,
                                                  const ThrottleLimits& limits);

// Whether nothing happens until the next "high" event.
[[nodiscard]] bool is_idle(const ThrottleLiftState& state, MonotonicTime now);

struct LiftRoom {
  Bytes usage;
  std::optional<Bytes> max;  // memory.max of the cgroup; nothing: unlimited
  // The least of what the node and the cgroups above it have left.
  Bytes headroom;
  // For full_lift(): usage without inactive file pages, which count as left in `headroom`.
  Bytes working_set = {};
};

// The lifted memory.high: a quarter of the headroom above `present` or usage, memory.max at most.
// Nothing: the headroom does not cover a lift.
[[nodiscard]] std::optional<Bytes> lifted_high(const LiftRoom& room, Bytes present);

// What a lift must leave to the node: the highest threshold on memory.available that evicts.
[[nodiscard]] Bytes lift_reserve(std::span<const Threshold> thresholds, Bytes capacity);

// What the node has left above `reserve`: by the measure of the threshold, capacity minus working
// set, and by MemAvailable, which does without what the kernel cannot reclaim. The lesser one
// counts. Nothing: one of them is unknown.
[[nodiscard]] std::optional<Bytes> lift_headroom(const NodeSample& node, Bytes reserve);

}  // namespace forestall::policy
