// SPDX-License-Identifier: Apache-2.0
// The response to memory pressure of single containers (KEP-5986), in stages.
//
// A value is what happened in the last 10 s, divided by 10 s: the events of memory.events.local per
// second, and the part of the time in which tasks waited for memory. That is similar to what
// kubelet's loop of 10 s and the kernel's avg10, which decays, measure. Less than 10 s after the
// first reading it is too small, never too large.
//
// A container is under pressure while one value is above its threshold. Then the stages that are
// allowed follow each other: reclaim, lift (of memory.high), evict, kill. Each is held for its
// time. The last one stays, but reclaim, which refaults would make endless, ends after its time.
// The stages evict and kill also wait for the grace period, which begins with the pressure and
// ends if all known values are at or below their thresholds. They act only right after an increase
// of the signal, not on what the window remembers. A stage that cannot do anything is left out:
// lift without a memory.high that throttles, and reclaim if PSI alone is above its threshold, which
// reclaim would raise.
//
// A lift is taken back after the calm time, and at once while the node is short, if the working set
// is below the value before.
//
// Only pressure at the container's own limit has stages. A limit above may be filled by others, and
// while the node is short, its thresholds decide (policy/step.h): both are only reported.
//
// Only time between two readings counts that both show pressure, with a node that is not short of
// memory. A missing reading, an unknown value and an unknown node stop the time and cause nothing.
// After 10 s without a reading that shows pressure, its stage and its time begin anew, and values
// that are unknown do not keep a container from being calm if another one is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/container_pressure.h"
#include "model/pod.h"
#include "policy/throttle_lift.h"

namespace forestall::policy {

inline constexpr Duration kPressureWindow = std::chrono::seconds(10);
// Longer between two readings does not count: the agent was stopped, or the node suspended.
inline constexpr Duration kPressureGapMax = std::chrono::seconds(5);

struct ContainerPressureState {
  // Of the window: the first one is at its begin or before, or is the first one of all.
  std::vector<ContainerPressureReading> readings;
  PressureStage stage = PressureStage::none;
  Duration over_for{0};   // how long it has been under pressure
  Duration stage_for{0};  // how long of this in its stage
  Duration calm_for{0};   // how long there has been none
  // The last reading that showed pressure at the container's own limit.
  std::optional<MonotonicTime> shown_at;
  // The last reading, if the time from there on counts as pressure, or as calm.
  std::optional<MonotonicTime> over_at;
  std::optional<MonotonicTime> calm_at;

  friend bool operator==(const ContainerPressureState&, const ContainerPressureState&) = default;
};

// What the reading does not show.
struct PressureScene {
  std::optional<bool> node_short;  // nothing: unknown
  // Stages that are allowed, but cannot be done with this container.
  PressureStages impossible;
  // The memory.high before a lift; nothing: it is not lifted.
  std::optional<Bytes> lifted_from;
  // Usage without inactive file pages, which the kernel reclaims first; needed to take back a lift.
  std::optional<Bytes> working_set = std::nullopt;
};

struct PressureExcess {
  PressureSignal signal = PressureSignal::high;
  double value = 0;
  double threshold = 0;

  [[nodiscard]] double ratio() const { return value / threshold; }
  friend bool operator==(const PressureExcess&, const PressureExcess&) = default;
};

struct ContainerPressureStep {
  ContainerPressureState next;
  PressureValues values;
  PressureCause cause = PressureCause::unknown;
  // The signal with the largest ratio; nothing: there is no pressure.
  std::optional<PressureExcess> worst;
  // What is to be done now. It is repeated at each reading until the next stage.
  PressureStage action = PressureStage::none;
  bool restore = false;  // the lift is to be taken back
};

[[nodiscard]] ContainerPressureStep step_container_pressure(
    const ContainerPressureRule& rule, const ContainerPressureState& state,
    const std::optional<ContainerPressureReading>& reading, const PressureScene& scene);

// Whether nothing happens until the next event: no value is above half of its threshold, the
// counters of events have not changed in the window, and nothing is to be taken back.
[[nodiscard]] bool is_idle(const ContainerPressureRule& rule, const ContainerPressureState& state,
                           const PressureScene& scene);

// memory.max, if the headroom covers what the container may use in addition. Nothing: it does not,
// or there is no memory.max.
[[nodiscard]] std::optional<Bytes> full_lift(const LiftRoom& room);

// Whether KEP-5986 leaves the pod alone: Guaranteed and static pods.
[[nodiscard]] bool is_exempt_from_pressure(const Pod& pod);

// A container, for the order of the response.
struct PressureOrder {
  // Nothing: no pod, but a cgroup that the configuration names. It comes last.
  std::optional<QosClass> qos;
  std::optional<std::int32_t> priority;  // nothing: unknown; comes after all known ones
  double ratio = 0;                      // of the worst signal
  std::string_view path;

  // BestEffort, Burstable; the lowest priority; the largest ratio; the path.
  friend bool operator<(const PressureOrder& a, const PressureOrder& b);
};

}  // namespace forestall::policy
