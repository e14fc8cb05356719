// SPDX-License-Identifier: Apache-2.0
// The kernel's memory pressure counters of the node since boot. A rate is the difference of two
// samples over the time between them, so a lost sample loses no counts.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace forestall {

// Absent: this kernel does not report it.
struct MemoryPressure {
  MonotonicTime at;
  std::optional<Duration> some;            // /proc/pressure/memory, total of `some`
  std::optional<Duration> full;            // and of `full`
  std::optional<std::uint64_t> scanned;    // pages: pgscan_anon + pgscan_file of /proc/vmstat
  std::optional<std::uint64_t> reclaimed;  // pages: pgsteal_anon + pgsteal_file
  std::optional<std::uint64_t> stalls;     // allocations that had to reclaim: allocstall_*

  friend bool operator==(const MemoryPressure&, const MemoryPressure&) = default;
};

}  // namespace forestall
