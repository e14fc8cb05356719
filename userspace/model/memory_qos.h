// SPDX-License-Identifier: Apache-2.0
// What decides the memory.min, memory.low and memory.high that kubelet writes (memory QoS,
// KEP-2570): its version and its settings.
#pragma once

#include <cstdint>
#include <optional>

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

}  // namespace forestall
