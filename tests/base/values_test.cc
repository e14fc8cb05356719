// SPDX-License-Identifier: Apache-2.0
// Bytes and times as values.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/clock.h"

namespace forestall {
namespace {

TEST(BytesTest, ArithmeticAndOrder) {
  EXPECT_EQ(kib(1024), mib(1));
  EXPECT_EQ(mib(1024), gib(1));
  EXPECT_EQ(mib(3) - mib(5), mib(-2));
  EXPECT_LT(mib(-2), Bytes{0});
  Bytes sum = mib(1);
  sum += mib(2);
  sum -= kib(1024);
  EXPECT_EQ(sum, mib(2));
  EXPECT_DOUBLE_EQ(kib(1536).mib(), 1.5);
}

TEST(ClockTest, MonotonicTimesAreNanosecondsOfTheKernelsClock) {
  EXPECT_EQ(to_ns(from_ns(1'234'567'890'123)), 1'234'567'890'123);
  EXPECT_DOUBLE_EQ(to_us(Duration(1500)), 1.5);
  EXPECT_DOUBLE_EQ(to_ms(std::chrono::microseconds(1500)), 1.5);
}

TEST(ClockTest, TheSystemClockDoesNotRunBackwards) {
  const SystemClock clock;
  const MonotonicTime earlier = clock.now();
  EXPECT_LE(earlier, clock.now());
}

}  // namespace
}  // namespace forestall
