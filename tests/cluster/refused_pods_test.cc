// SPDX-License-Identifier: Apache-2.0
#include "cluster/refused_pods.h"

#include <gtest/gtest.h>

#include <string>

#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;

class RefusedPodsTest : public ::testing::Test {
 protected:
  // The mark of a pod with this UID; empty: none.
  std::string mark_of(const std::string& uid) {
    rebalance::Snapshot snapshot;
    snapshot.pods.emplace_back().uid = uid;
    pods_.mark(snapshot, clock_.now());
    return std::string(snapshot.pods[0].refused);
  }

  test::ManualClock clock_;
  RefusedPods pods_;
};

TEST_F(RefusedPodsTest, MarksForSomeTime) {
  pods_.add("a", "403 Forbidden", true, clock_.now());
  EXPECT_EQ(mark_of("a"), "403 Forbidden");
  EXPECT_EQ(mark_of("b"), "");
  clock_.advance(RefusedPods::kFirst - seconds(1));
  EXPECT_EQ(mark_of("a"), "403 Forbidden");
  clock_.advance(seconds(1));
  EXPECT_EQ(mark_of("a"), "");
}

TEST_F(RefusedPodsTest, MarksTwiceAsLongWhatIsRefusedAgain) {
  pods_.add("a", "no", true, clock_.now());
  clock_.advance(RefusedPods::kFirst);
  pods_.add("a", "no", true, clock_.now());
  clock_.advance(RefusedPods::kFirst * 2 - seconds(1));
  EXPECT_EQ(mark_of("a"), "no");
  clock_.advance(seconds(1));
  EXPECT_EQ(mark_of("a"), "");
  for (int i = 0; i < 10; ++i) pods_.add("a", "no", true, clock_.now());
  clock_.advance(RefusedPods::kLongest);
  EXPECT_EQ(mark_of("a"), "");
  clock_.advance(RefusedPods::kLongest);
  EXPECT_EQ(mark_of("a"), "");
  EXPECT_EQ(pods_.size(), 0U) << "forgotten after twice the time";
  pods_.add("a", "", true, clock_.now());
  EXPECT_NE(mark_of("a"), "") << "an answer without a text";
  clock_.advance(RefusedPods::kFirst);
  EXPECT_EQ(mark_of("a"), "") << "and it began anew";
}

// Else a pod would be tried again in each cycle of an hour, without end.
TEST_F(RefusedPodsTest, RemembersForTwoMoreIntervals) {
  constexpr Duration kHour = std::chrono::hours(1);
  pods_ = RefusedPods(kHour);
  for (Duration lasts = RefusedPods::kFirst; lasts <= RefusedPods::kLongest; lasts *= 2) {
    pods_.add("a", "no", true, clock_.now());
    clock_.advance(lasts - seconds(1));
    EXPECT_EQ(mark_of("a"), "no");
    clock_.advance(kHour);
    EXPECT_EQ(mark_of("a"), "");
  }
}

TEST_F(RefusedPodsTest, MarksNoLongerAfterErrorsOfTheServer) {
  for (int i = 0; i < 5; ++i) pods_.add("a", "500", false, clock_.now());
  EXPECT_EQ(mark_of("a"), "500");
  clock_.advance(RefusedPods::kFirst);
  EXPECT_EQ(mark_of("a"), "");
}

TEST_F(RefusedPodsTest, AnErrorOfTheServerKeepsTheTimeOfAPod) {
  for (int i = 0; i < 3; ++i) pods_.add("a", "no", true, clock_.now());
  pods_.add("a", "500", false, clock_.now());
  clock_.advance(4 * RefusedPods::kFirst - seconds(1));
  EXPECT_EQ(mark_of("a"), "500");
  clock_.advance(seconds(1));
  EXPECT_EQ(mark_of("a"), "");
}

TEST_F(RefusedPodsTest, IsBounded) {
  for (std::size_t i = 0; i < RefusedPods::kMax + 5; ++i) {
    pods_.add(std::to_string(i), "no", true, clock_.now());
    clock_.advance(std::chrono::microseconds(1));
  }
  EXPECT_EQ(pods_.size(), RefusedPods::kMax);
  EXPECT_EQ(mark_of("4"), "") << "the oldest are forgotten";
  EXPECT_EQ(mark_of("5"), "no");
}

}  // namespace
}  // namespace forestall::cluster
