// SPDX-License-Identifier: Apache-2.0
// Key of the ladder's epoll events and the reapers' tickets: a process of a victim by its index,
// the victim's cgroup.events (on tickets: opening it), or one of the jobs for its cgroup.
#pragma once

#include <cstdint>

namespace forestall::actuators {

struct EventKey {
  std::uint32_t victim = 0;  // 0 is no victim
  std::uint32_t index = 0;

  static constexpr std::uint32_t kCgroupEvents = UINT32_MAX;
  static constexpr std::uint32_t kCgroupKill = UINT32_MAX - 1;  // only on tickets
  static constexpr std::uint32_t kReclaim = UINT32_MAX - 2;     // only on tickets
  [[nodiscard]] constexpr std::uint64_t pack() const {
    return (std::uint64_t{victim} << 32) | index;
  }
  static constexpr EventKey unpack(std::uint64_t key) {
    return {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
  }
};

}  // namespace forestall::actuators
