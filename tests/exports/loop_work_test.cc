// SPDX-License-Identifier: Apache-2.0
#include "exports/loop_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/manual_clock.h"

namespace forestall::exports {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class LoopWorkTest : public ::testing::Test {
 protected:
  void work(LoopWork kind, Duration length) {
    const LoopWorkScope scope(tally, kind);
    clock.advance(length);
  }
  test::ManualClock clock;
  LoopWorkTally tally{clock};
};

TEST_F(LoopWorkTest, EachKindHasAName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kLoopWorkCount; ++i) {
    names.insert(to_string(static_cast<LoopWork>(i)));
  }
  EXPECT_EQ(names.size(), kLoopWorkCount);
  EXPECT_FALSE(names.contains(""));
}

TEST_F(LoopWorkTest, AStretchIsTheSumOfItsWork) {
  tally.begin(clock.now());
  clock.advance(milliseconds(1));
  work(LoopWork::observe, milliseconds(2));
  work(LoopWork::kill, milliseconds(3));
  tally.end();
  EXPECT_EQ(tally.stretches(), 1U);
  EXPECT_EQ(tally.longest(), milliseconds(6));
  EXPECT_EQ(tally.summary(LoopWork::other).longest, milliseconds(1));
  EXPECT_EQ(tally.summary(LoopWork::observe).longest, milliseconds(2));
  EXPECT_EQ(tally.summary(LoopWork::kill).total, milliseconds(3));
  EXPECT_EQ(tally.summary(LoopWork::rank).total, Duration::zero());
}

TEST_F(LoopWorkTest, ALongStretchIsLoggedWithItsMainWork) {
  EXPECT_FALSE(long_stretch_line(tally.end())) << "outside of a stretch";
  tally.begin(clock.now());
  clock.advance(milliseconds(1));
  work(LoopWork::arm, milliseconds(370));
  work(LoopWork::kill, milliseconds(1));
  const auto line = long_stretch_line(tally.end());
  ASSERT_TRUE(line);
  EXPECT_THAT(line->text(), HasSubstr("event=long-stretch took_us=372000.0 most=arm "
                                      "most_us=370000.0"));
  tally.begin(clock.now());
  work(LoopWork::arm, milliseconds(99));
  EXPECT_FALSE(long_stretch_line(tally.end()));
}

TEST_F(LoopWorkTest, AnInnerKindCountsForItselfOnly) {
  tally.begin(clock.now());
  {
    const LoopWorkScope outer(tally, LoopWork::rank);
    clock.advance(milliseconds(1));
    work(LoopWork::candidates, milliseconds(5));
    clock.advance(milliseconds(1));
  }
  tally.end();
  EXPECT_EQ(tally.summary(LoopWork::rank).total, milliseconds(2));
  EXPECT_EQ(tally.summary(LoopWork::candidates).total, milliseconds(5));
  EXPECT_EQ(tally.longest(), milliseconds(7));
}

TEST_F(LoopWorkTest, KeepsTheLongestStretchAndTheLongestOfEachKind) {
  tally.begin(clock.now());
  work(LoopWork::arm, milliseconds(4));
  tally.end();
  tally.begin(clock.now());
  work(LoopWork::arm, milliseconds(1));
  work(LoopWork::pin, milliseconds(9));
  tally.end();
  tally.begin(clock.now());
  work(LoopWork::arm, milliseconds(2));
  tally.end();
  EXPECT_EQ(tally.stretches(), 3U);
  EXPECT_EQ(tally.longest(), milliseconds(10));
  const LoopWorkTally::Summary arm = tally.summary(LoopWork::arm);
  EXPECT_EQ(arm.longest, milliseconds(4));
  EXPECT_EQ(arm.in_longest, milliseconds(1));
  EXPECT_EQ(arm.total, milliseconds(7));
}

TEST_F(LoopWorkTest, WaitingForEventsIsNoWork) {
  tally.begin(clock.now());
  tally.end();
  clock.advance(milliseconds(500));
  work(LoopWork::observe, milliseconds(500));
  tally.begin(clock.now());
  tally.end();
  EXPECT_EQ(tally.longest(), Duration::zero());
  EXPECT_EQ(tally.summary(LoopWork::observe).total, Duration::zero());
}

}  // namespace
}  // namespace forestall::exports
