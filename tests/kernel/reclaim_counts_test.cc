// SPDX-License-Identifier: Apache-2.0
#include "kernel/reclaim_counts.h"

#include <gtest/gtest.h>

namespace forestall::kernel {
namespace {

TEST(ReclaimCounts, SumsTheKernelsSeparateCounters) {
  const ReclaimCounts counts = parse_reclaim_counts(
      "nr_free_pages 1\nallocstall_dma32 1\nallocstall_normal 20\nallocstall_movable 300\n"
      "pgsteal_anon 4\npgsteal_file 50\npgscan_direct 7\npgscan_direct_throttle 99\n"
      "pgscan_anon 6\npgscan_file 60\n");
  EXPECT_EQ(counts.stalls, 321U);
  EXPECT_EQ(counts.reclaimed, 54U);
  EXPECT_EQ(counts.scanned, 66U);
  EXPECT_EQ(counts.direct_scanned, 7U);
}

TEST(ReclaimCounts, MissingCountersAreUnknown) {
  const ReclaimCounts counts = parse_reclaim_counts("pgscan_file x\npgsteal_file\n\n");
  EXPECT_FALSE(counts.scanned);
  EXPECT_FALSE(counts.reclaimed);
  EXPECT_FALSE(counts.direct_scanned);
  EXPECT_FALSE(counts.stalls);
}

}  // namespace
}  // namespace forestall::kernel
