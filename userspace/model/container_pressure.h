// SPDX-License-Identifier: Apache-2.0
// Memory pressure of single containers (KEP-5986): what is measured, what is configured, and what
// came of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"

namespace forestall {

enum class PressureSignal : std::uint8_t {
  high,  // "high" events of memory.events.local, per second
  max,   // "max" events, per second
  psi,   // PSI "some", percent of the time
};
inline constexpr std::array kPressureSignals{PressureSignal::high, PressureSignal::max,
                                             PressureSignal::psi};
// "high", "max", "psi".
[[nodiscard]] std::string_view to_string(PressureSignal signal);

// By PressureSignal. Nullopt: off, or unknown.
using PressureValues = std::array<std::optional<double>, kPressureSignals.size()>;

// The response, in the order of the stages.
enum class PressureStage : std::uint8_t { none, reclaim, lift, evict, kill };
inline constexpr std::array kPressureStages{PressureStage::reclaim, PressureStage::lift,
                                            PressureStage::evict, PressureStage::kill};
// "none", "reclaim", "lift", "evict", "kill".
[[nodiscard]] std::string_view to_string(PressureStage stage);
[[nodiscard]] std::optional<PressureStage> parse_pressure_stage(std::string_view text);

// A limit of "max".
inline constexpr Bytes kNoLimit{std::numeric_limits<std::int64_t>::max()};

// Counters since the cgroup was created. Nullopt: unknown.
struct ContainerPressureReading {
  CgroupId cgroup;
  MonotonicTime at;
  std::optional<std::uint64_t> high_events = std::nullopt;
  std::optional<std::uint64_t> max_events = std::nullopt;
  std::optional<Duration> some_stall = std::nullopt;
  std::optional<Bytes> usage = std::nullopt;
  std::optional<Bytes> high = std::nullopt;  // memory.high, or kNoLimit
  std::optional<Bytes> max = std::nullopt;   // memory.max, or kNoLimit

  friend bool operator==(const ContainerPressureReading&,
                         const ContainerPressureReading&) = default;
};

// Where the memory is short.
enum class PressureCause : std::uint8_t {
  unknown,
  own_limit,    // at memory.high or memory.max of the container
  limit_above,  // the node is calm, and so is the container's own limit
  node,         // thresholds of the node decide
};
// "unknown", "own-limit", "limit-above", "node".
[[nodiscard]] std::string_view to_string(PressureCause cause);

// A set of stages.
struct PressureStages {
  std::array<bool, kPressureStages.size()> in{};  // by position in kPressureStages

  [[nodiscard]] constexpr bool contains(PressureStage stage) const {
    return stage != PressureStage::none && in[static_cast<std::size_t>(stage) - 1];
  }
  // REQUIRES: not none.
  constexpr void insert(PressureStage stage) { in[static_cast<std::size_t>(stage) - 1] = true; }
  friend bool operator==(const PressureStages&, const PressureStages&) = default;
};

struct ContainerPressureRule {
  PressureValues thresholds;  // none of them 0
  PressureStages stages;      // that may be reached
  // How long pressure lasts before the stages evict and kill.
  Duration grace{0};
  // How long a stage lasts before the next one.
  Duration reclaim_time{0};
  Duration lift_time{0};
  Duration evict_time{0};
  // How long there is no pressure before a lift is taken back.
  Duration calm_time{0};

  friend bool operator==(const ContainerPressureRule&, const ContainerPressureRule&) = default;
};

}  // namespace forestall
