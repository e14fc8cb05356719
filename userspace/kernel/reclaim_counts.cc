// SPDX-License-Identifier: Apache-2.0
#include "kernel/reclaim_counts.h"

#include "base/parse.h"

namespace forestall::kernel {
namespace {

void add(std::optional<std::uint64_t>& sum, std::string_view text) {
  if (const auto number = parse_u64(text)) sum = sum.value_or(0) + *number;
}

}  // namespace

ReclaimCounts parse_reclaim_counts(std::string_view vmstat) {
  ReclaimCounts counts;
  while (!vmstat.empty()) {
    std::string_view value = next_field(vmstat, '\n');
    const std::string_view key = next_field(value, ' ');
    if (key == "pgscan_anon" || key == "pgscan_file") add(counts.scanned, value);
    if (key == "pgsteal_anon" || key == "pgsteal_file") add(counts.reclaimed, value);
    if (key == "pgscan_direct") add(counts.direct_scanned, value);
    if (key.starts_with("allocstall_")) add(counts.stalls, value);
  }
  return counts;
}

}  // namespace forestall::kernel
