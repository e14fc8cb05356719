// SPDX-License-Identifier: Apache-2.0
// Memory QoS (KEP-2570): what decides the memory.min, memory.low and memory.high that kubelet
// writes, what the agent is to write of it, and what came of that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace forestall {

// memoryReservationPolicy of a KubeletConfiguration.
enum class MemoryReservation : std::uint8_t { none, tiered };

struct MemoryQosSettings {
  // The y of kubelet's version 1.y.
  int kubelet_minor = 37;
  // The feature gate MemoryQoS.
  bool enabled = true;
  // Kubelets before 1.36 have no policy: they always reserve.
  MemoryReservation reservation = MemoryReservation::none;
  // memoryThrottlingFactor, above 0 and at most 1; nullopt: kubelet writes no memory.high.
  std::optional<double> throttling_factor = std::nullopt;
  // Capacity minus kubeReserved and systemReserved, without the eviction threshold; bytes, 0:
  // unknown.
  std::int64_t node_allocatable = 0;
  std::int64_t page_size = 4096;  // bytes

  friend bool operator==(const MemoryQosSettings&, const MemoryQosSettings&) = default;
};

// The throttling factor of a kubelet whose configuration has none.
[[nodiscard]] constexpr std::optional<double> default_throttling_factor(int kubelet_minor) {
  if (kubelet_minor >= 37) return std::nullopt;
  return kubelet_minor >= 27 ? 0.9 : 0.8;
}

enum class MemoryQosMode : std::uint8_t { off, observe, enforce };

// Configured values of one cgroup, without a pod. Nullopt: not written.
struct MemoryQosCgroup {
  std::string path;  // absolute, in the memory hierarchy
  std::optional<Bytes> min;
  std::optional<Bytes> low;
  std::optional<Bytes> high;

  friend bool operator==(const MemoryQosCgroup&, const MemoryQosCgroup&) = default;
};

// The agent's own memory QoS, by the formulas of current kubelets.
struct MemoryQosConfig {
  MemoryQosMode mode = MemoryQosMode::off;
  std::optional<double> throttling_factor;  // as in MemoryQosSettings
  MemoryReservation reservation = MemoryReservation::none;
  // Whether the kubelet itself writes memory.min and memory.low, and memory.high. Nullopt: unknown.
  std::optional<bool> kubelet_reserves;
  std::optional<bool> kubelet_throttles;
  std::vector<MemoryQosCgroup> cgroups;

  friend bool operator==(const MemoryQosConfig&, const MemoryQosConfig&) = default;
};

// "off", "observe", "enforce".
[[nodiscard]] std::string_view to_string(MemoryQosMode mode);
[[nodiscard]] std::optional<MemoryQosMode> parse_memory_qos_mode(std::string_view text);
// "None", "TieredReservation".
[[nodiscard]] std::string_view to_string(MemoryReservation reservation);
[[nodiscard]] std::optional<MemoryReservation> parse_memory_reservation(std::string_view text);

enum class MemoryQosFile : std::uint8_t { min, low, high };
inline constexpr std::array kMemoryQosFiles{MemoryQosFile::min, MemoryQosFile::low,
                                            MemoryQosFile::high};
// "memory.min", "memory.low", "memory.high".
[[nodiscard]] const char* to_string(MemoryQosFile file);

enum class MemoryQosState : std::uint8_t {
  equal,        // present already
  would_write,  // the agent only observes
  written,      // by the agent, and present
  lifted,       // a memory.high that the agent has raised: the cgroup made no progress
  left,         // stays as it is, for a reason
  failed,
};
inline constexpr std::array kMemoryQosStates{MemoryQosState::equal,   MemoryQosState::would_write,
                                             MemoryQosState::written, MemoryQosState::lifted,
                                             MemoryQosState::left,    MemoryQosState::failed};
// "equal", "would-write", "written", "lifted", "left", "failed".
[[nodiscard]] std::string_view to_string(MemoryQosState state);

// One value, as computed and as found.
struct MemoryQosValue {
  std::string subject;  // the pod, container, level or cgroup that it is for
  std::string path;     // its cgroup
  MemoryQosFile file = MemoryQosFile::min;
  std::string present;  // bytes or "max", as in the file; empty: unknown
  std::int64_t wanted = 0;
  MemoryQosState state = MemoryQosState::left;
  std::string reason = {};  // unless it is equal; of a written one: what limits its effect

  friend bool operator==(const MemoryQosValue&, const MemoryQosValue&) = default;
};

struct MemoryQosReport {
  MemoryQosMode mode = MemoryQosMode::off;
  std::vector<MemoryQosValue> values;
  std::uint64_t unknown_pods = 0;  // without facts, so without values
  std::string problem = {};        // why nothing can be computed
  std::uint64_t rewrites = 0;      // values written again that another process had reset
  std::uint64_t lifts = 0;         // how often a memory.high was raised

  friend bool operator==(const MemoryQosReport&, const MemoryQosReport&) = default;
};

}  // namespace forestall
