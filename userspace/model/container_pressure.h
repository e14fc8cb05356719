// SPDX-License-Identifier: Apache-2.0
// Memory pressure of single containers (KEP-5986): what is measured, what is configured, and what
// came of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
[[nodiscard]] std::optional<PressureSignal> parse_pressure_signal(std::string_view text);

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
inline constexpr Bytes kNoMemoryLimit{std::numeric_limits<std::int64_t>::max()};

// Counters since the cgroup was created. Nullopt: unknown.
struct ContainerPressureReading {
  CgroupId cgroup;
  MonotonicTime at;
  std::optional<std::uint64_t> high_events = std::nullopt;
  std::optional<std::uint64_t> max_events = std::nullopt;
  std::optional<Duration> some_stall = std::nullopt;
  std::optional<Bytes> usage = std::nullopt;
  std::optional<Bytes> high = std::nullopt;  // memory.high, or kNoMemoryLimit
  std::optional<Bytes> max = std::nullopt;   // memory.max, or kNoMemoryLimit

  friend bool operator==(const ContainerPressureReading&,
                         const ContainerPressureReading&) = default;
};

// Where the memory is short.
enum class PressureCause : std::uint8_t {
  none,  // it is not under pressure; its memory.high is lifted
  unknown,
  own_limit,    // at memory.high or memory.max of the container
  limit_above,  // the node is calm, and so is the container's own limit
  node,         // thresholds of the node decide
};
inline constexpr std::array kPressureCauses{PressureCause::none, PressureCause::unknown,
                                            PressureCause::own_limit, PressureCause::limit_above,
                                            PressureCause::node};
// "none", "unknown", "own-limit", "limit-above", "node".
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

struct ContainerPressureConfig {
  ContainerPressureRule rule;
  bool enforces = false;             // else the response is only reported
  std::vector<std::string> cgroups;  // absolute paths, apart from containers of pods

  [[nodiscard]] bool is_on() const {
    return std::ranges::any_of(rule.thresholds, [](const auto& each) { return each.has_value(); });
  }
  [[nodiscard]] bool lifts() const {
    return is_on() && enforces && rule.stages.contains(PressureStage::lift);
  }
  friend bool operator==(const ContainerPressureConfig&, const ContainerPressureConfig&) = default;
};

// A container, or a cgroup that the configuration names, under pressure or with a lift.
struct PressedCgroup {
  std::string subject;  // namespace/pod/container, or the path
  std::string path;
  PressureStage stage = PressureStage::none;
  PressureCause cause = PressureCause::unknown;
  PressureValues values;
  Duration over_for{0};
  std::optional<Bytes> lifted_from = std::nullopt;  // memory.high before a lift
  std::string result = {};                          // what came of the stage

  friend bool operator==(const PressedCgroup&, const PressedCgroup&) = default;
};

// A container whose response has reached evict or kill.
struct PressedContainer {
  std::string subject;  // namespace/pod/container, or the path
  CgroupId workload;    // of its pod, or of a cgroup that the configuration names
  PressureStage stage = PressureStage::evict;
  PressureSignal signal = PressureSignal::high;  // with the largest share of its threshold
  double value = 0;
  double threshold = 0;
  Duration over_for{0};
  MonotonicTime at;  // of the reading

  friend bool operator==(const PressedContainer&, const PressedContainer&) = default;
};

struct ContainerPressureReport {
  bool enforces = false;
  std::string problem = {};  // why nothing is watched
  std::vector<PressedCgroup> pressed = {};
  std::uint64_t watched = 0;
  std::uint64_t not_watched = 0;  // beyond the limit, or unreadable
  std::uint64_t unread = 0;       // watched ones whose last reading failed
  std::uint64_t exempt = 0;       // containers of Guaranteed and static pods
  std::uint64_t unknown_pods = 0;
  // Since the start.
  std::array<std::uint64_t, kPressureStages.size()> begun{};  // stages, in their order
  Bytes reclaimed{};
  std::uint64_t lifts = 0;
  std::uint64_t restores = 0;

  friend bool operator==(const ContainerPressureReport&, const ContainerPressureReport&) = default;
};

}  // namespace forestall
