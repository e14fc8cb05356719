// SPDX-License-Identifier: Apache-2.0
// What the kernel counts of the reclaim of pages on the node, out of /proc/vmstat.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall::kernel {

// Since boot, in pages (mm/vmstat.c, enum vm_event_item). Nothing: this kernel does not tell.
struct ReclaimCounts {
  std::optional<std::uint64_t> scanned = std::nullopt;         // pgscan_anon + pgscan_file
  std::optional<std::uint64_t> reclaimed = std::nullopt;       // pgsteal_anon + pgsteal_file
  std::optional<std::uint64_t> direct_scanned = std::nullopt;  // pgscan_direct
  // Allocations that had to reclaim: allocstall_* of all zones.
  std::optional<std::uint64_t> stalls = std::nullopt;
};

// From the text of /proc/vmstat. A line that is no number is as one that is not there.
[[nodiscard]] ReclaimCounts parse_reclaim_counts(std::string_view vmstat);

}  // namespace forestall::kernel
