// SPDX-License-Identifier: Apache-2.0
#include "policy/throttle_lift.h"

#include <algorithm>

#include "model/workload.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

constexpr std::int64_t kMarginShare = 16;
constexpr std::int64_t kLiftShare = 4;

bool is_near_high(Bytes usage, Bytes high) {
  return usage >= high - Bytes{high.count / kMarginShare};
}

bool is_stalled(const ThrottleReading& from, const ThrottleReading& to) {
  const auto percent = std::chrono::nanoseconds(to.at - from.at) / 100;
  return to.full_stall - from.full_stall >= percent * kStalledPercent;
}

// Counters never decrease while a cgroup lives.
bool follows(const ThrottleReading& last, const ThrottleReading& reading) {
  return reading.at > last.at && reading.high_events >= last.high_events &&
         reading.full_stall >= last.full_stall;
}

}  // namespace

ThrottleLiftStep step_throttle_lift(const ThrottleLiftState& state,
                                    const std::optional<ThrottleReading>& reading,
                                    const ThrottleLimits& limits) {
  ThrottleLiftStep out;
  if (!reading) return out;
  out.next.last = reading;
  out.next.event_at = state.event_at;
  if (!state.last || !follows(*state.last, *reading)) return out;
  const ThrottleReading& last = *state.last;
  if (reading->high_events > last.high_events) out.next.event_at = reading->at;
  const bool had_events =
      out.next.event_at && reading->at - *out.next.event_at <= kThrottleEventAge;
  if (had_events && is_near_high(reading->usage, limits.present)) {
    const ThrottleReading& from = state.stalled_since.value_or(last);
    if (is_stalled(from, *reading)) {
      out.next.stalled_since = from;
    } else if (is_stalled(last, *reading)) {
      out.next.stalled_since = last;
    }
  }
  if (out.next.stalled_since) {
    out.stalled = reading->at - out.next.stalled_since->at;
    if (out.stalled >= limits.stall_max) out.action = ThrottleAction::lift;
    return out;
  }
  if (!limits.lifted || is_near_high(reading->usage, limits.planned)) return out;
  out.next.calm_since = state.calm_since.value_or(last.at);
  if (reading->at - *out.next.calm_since >= limits.stall_max) out.action = ThrottleAction::restore;
  return out;
}

bool is_idle(const ThrottleLiftState& state, MonotonicTime now) {
  if (!state.last || state.stalled_since) return false;
  return !state.event_at || now - *state.event_at > kThrottleEventAge;
}

std::optional<Bytes> lifted_high(const LiftRoom& room, Bytes present) {
  const Bytes share{room.headroom.count / kLiftShare};
  if (share < kLiftMin) return std::nullopt;
  const Bytes high = add(std::max(room.usage, present), share);
  const Bytes lifted = room.max ? std::min(high, *room.max) : high;
  return lifted > present ? std::optional(lifted) : std::nullopt;
}

Bytes lift_reserve(std::span<const Threshold> thresholds, Bytes capacity) {
  Bytes reserve{};
  for (const Threshold& each : thresholds) {
    if (each.signal != Signal::memory_available || each.response != Response::evict) continue;
    reserve = std::max(reserve, Bytes{each.limit.of(capacity.count).value()});
  }
  return reserve;
}

std::optional<Bytes> lift_headroom(const NodeSample& node, Bytes reserve) {
  if (!node.capacity || !node.usage || !node.inactive_file || !node.kernel_available) {
    return std::nullopt;
  }
  const Bytes available = subtract(*node.capacity, working_set(*node.usage, *node.inactive_file));
  return subtract(std::min(available, *node.kernel_available), reserve);
}

}  // namespace forestall::policy
