// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>

#include "cluster/informer_reporter.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;

class InformerLogFilterTest : public ::testing::Test {
 protected:
  bool passes(bool current, const std::string& problem = "") {
    return filter_.passes(current, problem, now_);
  }
  // How many lines a problem has that recurs between lists for so long.
  int lines(const std::string& problem, Duration longest) {
    int count = 0;
    for (const MonotonicTime end = now_ + longest; now_ < end; now_ += seconds(15)) {
      count += passes(true, problem) ? 1 : 0;
      count += passes(true) ? 1 : 0;
    }
    return count;
  }

  InformerLogFilter filter_;
  MonotonicTime now_ = from_ns(1'000'000'000'000);
};

TEST_F(InformerLogFilterTest, PassesEachChangeOnce) {
  EXPECT_FALSE(passes(false)) << "nothing was listed yet";
  EXPECT_TRUE(passes(true));
  EXPECT_FALSE(passes(true));
  EXPECT_TRUE(passes(true, "cut"));
  EXPECT_FALSE(passes(true, "cut"));
  EXPECT_TRUE(passes(false, "cut"));
  EXPECT_TRUE(passes(true));
  EXPECT_FALSE(passes(true));
}

TEST_F(InformerLogFilterTest, PassesAProblemThatRecursOnceAnHour) {
  EXPECT_TRUE(passes(true));
  EXPECT_EQ(lines("403", InformerLogFilter::kRepeat), 1);
  EXPECT_EQ(lines("403", 2 * InformerLogFilter::kRepeat), 2);
}

TEST_F(InformerLogFilterTest, PassesTheEndOfAProblemThatDidNotRecur) {
  EXPECT_TRUE(passes(true));
  EXPECT_TRUE(passes(true, "403"));
  now_ += InformerLogFilter::kProblemLongest - Duration(1);
  EXPECT_FALSE(passes(true));
  now_ += Duration(1);
  EXPECT_TRUE(passes(true));
  EXPECT_TRUE(passes(true, "403")) << "a new one";
}

// A list that is slow is current for a while, again and again.
TEST_F(InformerLogFilterTest, APauseInWhichTheObjectsAreCurrentDoesNotEndTheProblem) {
  EXPECT_TRUE(passes(true));
  EXPECT_TRUE(passes(true, "403"));
  now_ += seconds(200);
  EXPECT_TRUE(passes(false, "403"));
  now_ += seconds(10);
  EXPECT_TRUE(passes(true));
  EXPECT_FALSE(passes(true, "403"));
}

TEST_F(InformerLogFilterTest, BoundsLinesOfProblemsThatAlternate) {
  EXPECT_TRUE(passes(true));
  int count = 0;
  const MonotonicTime end = now_ + InformerLogFilter::kRepeat;
  for (int i = 0; now_ < end; ++i, now_ += seconds(15)) {
    count += passes(true, "attempt " + std::to_string(i)) ? 1 : 0;
  }
  EXPECT_EQ(count, InformerLogFilter::kRepeat / InformerLogFilter::kProblemLongest);
}

}  // namespace
}  // namespace forestall::cluster
