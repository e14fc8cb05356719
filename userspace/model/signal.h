// SPDX-License-Identifier: Apache-2.0
// A signal is what a threshold watches. Names and meaning are kubelet's
// (pkg/kubelet/eviction/api/types.go) except where marked as our own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall {

enum class Signal : std::uint8_t {
  // MemTotal - working set of the whole node.
  memory_available,
  // Limit of the pods cgroup (kubepods) - its working set.
  allocatable_memory_available,
  // Our own: limit of one watched cgroup - its working set.
  cgroup_memory_available,
};

inline constexpr std::array kSignals{Signal::memory_available, Signal::allocatable_memory_available,
                                     Signal::cgroup_memory_available};

[[nodiscard]] std::string_view to_string(Signal signal);
[[nodiscard]] std::optional<Signal> parse_signal(std::string_view text);

}  // namespace forestall
