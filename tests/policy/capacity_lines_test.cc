// SPDX-License-Identifier: Apache-2.0
#include "policy/capacity_lines.h"

#include <gtest/gtest.h>

namespace forestall::policy {
namespace {

Evidence evidence(Signal signal, Limit limit, std::int64_t capacity, std::int64_t available) {
  Evidence made;
  made.threshold.signal = signal;
  made.threshold.limit = limit;
  made.capacity = capacity;
  made.available = available;
  made.limit = limit.of(capacity);
  return made;
}

TEST(CapacityLines, ExistForFilesystemsAndTasksNotForMemory) {
  Decision decision;
  decision.evidence = {
      evidence(Signal::memory_available, Limit::bytes(mib(100)), gib(8).count, gib(4).count),
      evidence(Signal::nodefs_inodes_free, Limit::share(0.05F), 1000, 700),
      evidence(Signal::pid_available, {decimal(200), std::nullopt}, 4000, 100)};
  const std::vector<CapacityLine> expected{{Signal::nodefs_inodes_free, 50, 700},
                                           {Signal::pid_available, 200, 100}};
  EXPECT_EQ(capacity_lines(decision), expected);
}

TEST(CapacityLines, TheMinimumReclaimCountsWhileTheThresholdDrives) {
  Decision decision;
  Evidence one =
      evidence(Signal::nodefs_available, Limit::bytes(gib(1)), gib(10).count, gib(1).count);
  one.threshold.min_reclaim = Limit::bytes(mib(512));
  decision.evidence = {one};
  EXPECT_EQ(capacity_lines(decision).front().met_below, gib(1).count);
  decision.evidence.front().driving = true;
  EXPECT_EQ(capacity_lines(decision).front().met_below, (gib(1) + mib(512)).count);
}

TEST(CapacityLines, FreeSwapHasOne) {
  Decision decision;
  decision.evidence = {
      evidence(Signal::memory_until_oom, Limit::bytes(mib(64)), gib(9).count, gib(4).count),
      evidence(Signal::swap_available, Limit::share(0.25F), gib(1).count, mib(300).count)};
  const std::vector<CapacityLine> expected{
      {Signal::swap_available, mib(256).count, mib(300).count}};
  EXPECT_EQ(capacity_lines(decision), expected);
}

// A fraction of a byte above what is left is met, as kubelet compares exact quantities.
TEST(CapacityLines, AFractionRoundsUp) {
  Decision decision;
  decision.evidence = {evidence(Signal::nodefs_available,
                                {Quantity{500'000'000, QuantityFormat::decimal_si}, std::nullopt},
                                100, 0)};
  EXPECT_EQ(capacity_lines(decision).front().met_below, 1);
  EXPECT_TRUE(capacity_lines(decision).front().met());
}

}  // namespace
}  // namespace forestall::policy
