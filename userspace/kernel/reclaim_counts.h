// SPDX-License-Identifier: Apache-2.0
// The kernel's counters of page reclaim on the node, from /proc/vmstat.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall::kernel {

// Since boot, in pages (mm/vmstat.c, enum vm_event_item). Nothing: this kernel has no such counter.
struct ReclaimCounts {
  std::optional<std::uint64_t> scanned = std::nullopt;         // pgscan_anon + pgscan_file
  std::optional<std::uint64_t> reclaimed = std::nullopt;       // pgsteal_anon + pgsteal_file
  std::optional<std::uint64_t> direct_scanned = std::nullopt;  // pgscan_direct
  // Allocations that had to reclaim: allocstall_* of all zones.
  std::optional<std::uint64_t> stalls = std::nullopt;
};

// From the text of /proc/vmstat. A line without a number counts as missing.
[[nodiscard]] ReclaimCounts parse_reclaim_counts(std::string_view vmstat);

}  // namespace forestall::kernel
