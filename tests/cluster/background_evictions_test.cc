// SPDX-License-Identifier: Apache-2.0
#include "cluster/background_evictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct PodState {
  std::string uid;
  bool allowed = true;
  bool in_progress = false;
  PodPhase phase = PodPhase::running;
};

class BackgroundEvictionsTest : public ::testing::Test {
 protected:
  // UIDs of the pods whose evictions go on in the background.
  std::vector<std::string> marked(const std::vector<PodState>& pods) {
    rebalance::Snapshot snapshot;
    for (const PodState& each : pods) {
      rebalance::ClusterPod& pod = snapshot.pods.emplace_back();
      pod.uid = snapshot.texts->keep(each.uid);
      pod.background_allowed = each.allowed;
      pod.background_in_progress = each.in_progress;
      pod.phase = each.phase;
    }
    evictions_.mark(snapshot, clock_.now());
    std::vector<std::string> uids;
    for (const rebalance::ClusterPod& each : snapshot.pods) {
      if (each.evicted_in_background) uids.emplace_back(each.uid);
    }
    return uids;
  }

  test::ManualClock clock_;
  BackgroundEvictions evictions_;
};

TEST_F(BackgroundEvictionsTest, AreAssumedForTenMinutes) {
  evictions_.assume("a", clock_.now());
  EXPECT_THAT(marked({{"a"}, {"b"}}), ElementsAre("a"));
  clock_.advance(BackgroundEvictions::kAssumedLongest - seconds(1));
  evictions_.assume("a", clock_.now());
  EXPECT_THAT(marked({{"a"}, {"b"}}), ElementsAre("a"));
  clock_.advance(seconds(1));
  EXPECT_THAT(marked({{"a"}, {"b"}}), IsEmpty()) << "a second answer does not prolong it";
  EXPECT_EQ(evictions_.size(), 0U);
}

TEST_F(BackgroundEvictionsTest, GoOnWhileThePodHasTheAnnotation) {
  evictions_.assume("a", clock_.now());
  EXPECT_THAT(marked({{.uid = "a", .in_progress = true}}), ElementsAre("a"));
  clock_.advance(2 * BackgroundEvictions::kAssumedLongest);
  EXPECT_THAT(marked({{.uid = "a", .in_progress = true}}), ElementsAre("a"));
  EXPECT_THAT(marked({{"a"}}), IsEmpty()) << "the webhook gave it up";
}

TEST_F(BackgroundEvictionsTest, OfAnotherProcessCountToo) {
  EXPECT_THAT(marked({{.uid = "a", .in_progress = true}, {"b"}}), ElementsAre("a"));
}

TEST_F(BackgroundEvictionsTest, EndWithThePod) {
  for (const auto phase : {PodPhase::succeeded, PodPhase::failed}) {
    EXPECT_THAT(marked({{.uid = "a", .in_progress = true, .phase = phase}}), IsEmpty());
  }
}

TEST_F(BackgroundEvictionsTest, NeedThePodsAnnotation) {
  evictions_.assume("a", clock_.now());
  EXPECT_THAT(marked({{.uid = "a", .allowed = false}}), IsEmpty());
  EXPECT_THAT(marked({{.uid = "b", .allowed = false, .in_progress = true}}), IsEmpty());
  EXPECT_THAT(marked({{"a"}}), IsEmpty()) << "it is forgotten";
}

TEST(IsEvacuation, NeedsTheCodeAndTheWords) {
  kubernetes::ApiStatus status;
  status.code = 429;
  status.message = R"(admission webhook "w" denied the request: Eviction triggered evacuation of)";
  EXPECT_TRUE(is_evacuation(status));
  status.code = 403;
  EXPECT_FALSE(is_evacuation(status));
  status.code = 429;
  status.message = "too many requests";
  EXPECT_FALSE(is_evacuation(status));
}

}  // namespace
}  // namespace forestall::cluster
