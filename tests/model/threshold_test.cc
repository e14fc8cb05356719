// SPDX-License-Identifier: Apache-2.0
// Limits in bytes: kubelet computes percentages from a 32-bit float in double arithmetic and
// truncates (pkg/kubelet/eviction/helpers.go GetThresholdQuantity()). The byte counts must be
// equal.
#include "model/threshold.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace forestall {
namespace {

TEST(LimitTest, AnAbsoluteLimitIgnoresCapacity) {
  EXPECT_EQ(Limit::bytes(mib(100)).of(gib(1).count).value(), mib(100).count);
  EXPECT_EQ(Limit::bytes(mib(100)).of(0).value(), mib(100).count);
}

TEST(LimitTest, AShareIsThe32BitFloatNotTheDecimal) {
  // float32(0.1) is 0.100000001490116..., so that 10 % of 64 GiB is 102 bytes more than a tenth.
  EXPECT_EQ(Limit::share(0.1F).of(gib(64).count).value(), 6'871'947'776);
  EXPECT_EQ(Limit::share(0.15F).of(gib(64).count).value(), 10'307'921'920);
  EXPECT_EQ(Limit::share(0.05F).of(gib(1).count).value(), 53'687'092);
}

TEST(LimitTest, AShareIsCutNotRounded) {
  EXPECT_EQ(Limit::share(0.5F).of(3).value(), 1);
  EXPECT_EQ(Limit::share(0.25F).of(7).value(), 1);
  EXPECT_EQ(Limit::share(0.0F).of(gib(64).count).value(), 0);
  EXPECT_EQ(Limit::share(1.0F).of(gib(64).count).value(), gib(64).count);
}

TEST(LimitTest, ASharePastTheEndsOfAnInt64StopsThere) {
  EXPECT_EQ(Limit::share(1e30F).of(gib(64).count).value(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Limit::share(-1e30F).of(gib(64).count).value(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Limit::share(std::numeric_limits<float>::quiet_NaN()).of(gib(64).count).value(),
            std::numeric_limits<std::int64_t>::min());
}

TEST(ThresholdTest, HardIsTheAbsenceOfGrace) {
  Threshold threshold;
  EXPECT_TRUE(threshold.hard());
  threshold.grace = std::chrono::seconds(1);
  EXPECT_FALSE(threshold.hard());
}

}  // namespace
}  // namespace forestall
