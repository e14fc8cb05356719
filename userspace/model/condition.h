// SPDX-License-Identifier: Apache-2.0
// Node conditions: reported while a signal is met and for a transition period afterwards
// (pkg/kubelet/eviction/helpers.go signalToNodeCondition; reasons and messages of
// pkg/kubelet/nodestatus/setters.go).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "model/signal.h"

namespace forestall {

enum class Condition : std::uint8_t { memory_pressure, disk_pressure, pid_pressure };

inline constexpr std::array kConditions{Condition::memory_pressure, Condition::disk_pressure,
                                        Condition::pid_pressure};

// "MemoryPressure", "DiskPressure", "PIDPressure".
[[nodiscard]] std::string_view to_string(Condition condition);
[[nodiscard]] std::optional<Condition> parse_condition(std::string_view text);
// Nullopt for Forestall's own signal: a cgroup at its own limit is not a node condition.
[[nodiscard]] std::optional<Condition> condition_of(Signal signal);

// Kubelet's texts for a condition with this status: "KubeletHasInsufficientMemory", "kubelet has
// insufficient memory available", the node event "NodeHasInsufficientMemory", the taint
// "node.kubernetes.io/memory-pressure".
[[nodiscard]] std::string_view condition_reason(Condition condition, bool status);
[[nodiscard]] std::string_view condition_message(Condition condition, bool status);
[[nodiscard]] std::string_view condition_event(Condition condition, bool status);
[[nodiscard]] std::string_view condition_taint(Condition condition);

struct ConditionStatus {
  Condition condition = Condition::memory_pressure;
  bool status = false;   // reported
  bool changed = false;  // the last step reported another status, or none
  // When a threshold of this condition was last met, in event time; nullopt: never.
  std::optional<MonotonicTime> last_met;

  friend bool operator==(const ConditionStatus&, const ConditionStatus&) = default;
};

using Conditions = std::array<ConditionStatus, kConditions.size()>;  // in the order of kConditions

inline constexpr Conditions kNoConditions{
    ConditionStatus{Condition::memory_pressure, false, false, std::nullopt},
    ConditionStatus{Condition::disk_pressure, false, false, std::nullopt},
    ConditionStatus{Condition::pid_pressure, false, false, std::nullopt}};

}  // namespace forestall
