// SPDX-License-Identifier: Apache-2.0
#include "cluster/recent_evictions.h"

#include <gtest/gtest.h>

#include <string>

#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

rebalance::Snapshot snapshot_with(const std::string& uid) {
  rebalance::Snapshot snapshot;
  snapshot.pods.emplace_back().uid = snapshot.texts->keep(uid);
  return snapshot;
}

TEST(RecentEvictions, MarksThePodUntilTheSnapshotShowsItsEnd) {
  test::ManualClock clock;
  RecentEvictions recent;
  recent.add("a", 77, clock.now());
  for (int i = 0; i < 2; ++i) {
    rebalance::Snapshot snapshot = snapshot_with("a");
    recent.mark(snapshot, clock.now());
    EXPECT_TRUE(snapshot.pods[0].terminating);
    EXPECT_EQ(snapshot.pods[0].deleted_ns, 77);
  }
  rebalance::Snapshot seen = snapshot_with("a");
  seen.pods[0].terminating = true;
  seen.pods[0].deleted_ns = 80;
  recent.mark(seen, clock.now());
  EXPECT_EQ(seen.pods[0].deleted_ns, 80) << "the API server's time";
  EXPECT_EQ(recent.size(), 0U);
}

TEST(RecentEvictions, ForgetsAPodThatIsGone) {
  test::ManualClock clock;
  RecentEvictions recent;
  recent.add("a", 77, clock.now());
  rebalance::Snapshot snapshot = snapshot_with("b");
  recent.mark(snapshot, clock.now());
  EXPECT_FALSE(snapshot.pods[0].terminating);
  EXPECT_EQ(recent.size(), 0U);
}

// Such as one whose answer was lost.
TEST(RecentEvictions, ForgetsAnEvictionWithoutAnEffect) {
  test::ManualClock clock;
  RecentEvictions recent;
  recent.add("a", 77, clock.now());
  clock.advance(RecentEvictions::kLongest);
  rebalance::Snapshot snapshot = snapshot_with("a");
  recent.mark(snapshot, clock.now());
  EXPECT_FALSE(snapshot.pods[0].terminating);
  EXPECT_EQ(recent.size(), 0U);
}

}  // namespace
}  // namespace forestall::cluster
