// SPDX-License-Identifier: Apache-2.0
// What a reader has to read for rulesets, so that it opens no cgroup and no file that decides
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "model/ruleset.h"

namespace forestall::rulesets {

// Readings of a cgroup, as bits.
enum class Item : std::uint32_t {
  usage = 1U << 0U,
  protection = 1U << 1U,  // memory.min and memory.low, of the cgroup, its siblings and ancestors
  swap = 1U << 2U,
  stat = 1U << 3U,
  memory_pressure = 1U << 4U,
  io_pressure = 1U << 5U,
  cpu_pressure = 1U << 6U,
  io = 1U << 7U,
  dying = 1U << 8U,
  candidate = 1U << 9U,  // whether it has processes, and whether they are killed as a whole
  preference = 1U << 10U,
  high = 1U << 11U,                // memory.high
  freezer = 1U << 12U,             // whether it is frozen
  reclaim = 1U << 13U,             // whether it has memory.reclaim
  managed_preference = 1U << 14U,  // that of systemd's ManagedOOMPreference
  floor = 1U << 15U,               // memory.min and memory.low, of the cgroup alone
};

class Items {
 public:
  constexpr Items() = default;
  constexpr Items(Item item) : bits_(static_cast<std::uint32_t>(item)) {}
  [[nodiscard]] constexpr bool has(Item item) const {
    return (bits_ & static_cast<std::uint32_t>(item)) != 0;
  }
  constexpr Items& operator|=(Items other) {
    bits_ |= other.bits_;
    return *this;
  }
  friend constexpr Items operator|(Items a, Items b) { return a |= b; }
  friend bool operator==(const Items&, const Items&) = default;

 private:
  std::uint32_t bits_ = 0;
};

struct RuleNeed {
  CgroupPatterns cgroups;
  Items items;
  bool descend = false;  // of all their descendants too

  friend bool operator==(const RuleNeed&, const RuleNeed&) = default;
};

// For Forestall's own detectors and actions. One for each of them.
[[nodiscard]] std::vector<RuleNeed> needs_of(const std::vector<Ruleset>& rulesets);

}  // namespace forestall::rulesets
