// SPDX-License-Identifier: Apache-2.0
// Met, still met, driving, and their order.
#include "policy/thresholds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kNode = Signal::memory_available;
constexpr auto kPods = Signal::allocatable_memory_available;
constexpr auto kCgroup = Signal::cgroup_memory_available;

State in_series(std::vector<ThresholdId> driving) {
  State state;
  state.driving = std::move(driving);
  return state;
}

std::vector<std::string> acting_order(const Config& config, const Observation& observation) {
  const Assessment assessment = assess(config, {}, observation);
  std::vector<std::string> subjects;
  for (const Crossing& crossing : assessment.crossings) {
    subjects.push_back(assessment.evidence[crossing.evidence].subject);
  }
  return subjects;
}

TEST(ThresholdsTest, MetIsStrictlyBelow) {
  const Config config = policy::config({hard(kNode, mib(100))});
  EXPECT_FALSE(assess(config, {}, node_at(mib(100))).evidence[0].met);
  EXPECT_TRUE(assess(config, {}, node_at(mib(100) - Bytes{1})).evidence[0].met);
  EXPECT_TRUE(assess(config, {}, node_at(mib(-1))).evidence[0].met);
}

TEST(ThresholdsTest, ANeverMetShareAndAnAlwaysMetOne) {
  Threshold never = hard(kNode, {0});
  never.limit = Limit::share(0.0F);
  EXPECT_FALSE(assess(config({never}), {}, node_at({0})).evidence[0].met);
  Threshold always = hard(kNode, {0});
  always.limit = Limit::share(1.0F);
  EXPECT_TRUE(assess(config({always}), {}, node_at(gib(8) - Bytes{1})).evidence[0].met);
  EXPECT_FALSE(assess(config({always}), {}, node_at(gib(8))).evidence[0].met);
}

// The example of the Kubernetes documentation (node-pressure-eviction): 1Gi with a minimum reclaim
// of 500Mi, once met, holds until 1.5Gi.
TEST(ThresholdsTest, MinimumReclaimCountsOnlyForDrivingThresholds) {
  const Config config = policy::config({hard(kNode, gib(1), mib(500))});
  EXPECT_THAT(assess(config, {}, node_at(gib(1))).state.driving, IsEmpty());
  const State series = assess(config, {}, node_at(gib(1) - Bytes{1})).state;
  EXPECT_THAT(series.driving, ElementsAre(ThresholdId{0, {}}));
  EXPECT_TRUE(assess(config, series, node_at(gib(1) + mib(500) - Bytes{1})).evidence[0].met);
  const auto over = assess(config, series, node_at(gib(1) + mib(500)));
  EXPECT_FALSE(over.evidence[0].met);
  EXPECT_THAT(over.state.driving, IsEmpty());
  EXPECT_EQ(over.evidence[0].limit.bytes(), gib(1))
      << "the limit is shown without the minimum reclaim";
}

TEST(ThresholdsTest, AMinimumReclaimMayBeAShareAndExceedTheCapacity) {
  Threshold threshold = hard(kNode, gib(1));
  threshold.min_reclaim = Limit::share(2.0F);
  const Config config = policy::config({threshold});
  const State series = in_series({{0, {}}});
  EXPECT_TRUE(assess(config, series, node_at(gib(8))).evidence[0].met);
  EXPECT_FALSE(assess(config, {}, node_at(gib(8))).evidence[0].met);
}

TEST(ThresholdsTest, LimitsAtTheEndsOfAnInt64) {
  const Bytes most{std::numeric_limits<std::int64_t>::max()};
  const Config config = policy::config({hard(kNode, most, most)});
  const State series = in_series({{0, {}}});
  EXPECT_TRUE(assess(config, series, node_at(mib(-1))).evidence[0].met);
}

TEST(ThresholdsTest, CreditStopsActingButDoesNotEndTheSeries) {
  const Config config = policy::config({hard(kNode, gib(1), mib(500))});
  Observation observation = node_at(mib(900));
  observation.kills = {kill("/a", gib(1))};
  const auto assessment = assess(config, {}, observation);
  EXPECT_FALSE(assessment.evidence[0].met);
  EXPECT_EQ(assessment.evidence[0].pending_release, gib(1).count);
  ASSERT_EQ(assessment.crossings.size(), 1U);
  EXPECT_TRUE(assessment.crossings[0].covered);
  EXPECT_THAT(assessment.state.driving, ElementsAre(ThresholdId{0, {}}));
  // The victim is dead and freed less than expected: the minimum reclaim still counts.
  EXPECT_TRUE(assess(config, assessment.state, node_at(gib(1) + mib(100))).evidence[0].met);
}

TEST(ThresholdsTest, AnUnknownSignalGivesNoEvidenceAndEndsNoSeries) {
  const Config config =
      policy::config({hard(kNode, gib(1)), hard(kPods, gib(1)), hard(kCgroup, mib(10))});
  const CgroupId a = id_of("/a");
  const State series = in_series({{0, {}}, {1, id_of("/kubepods")}, {2, a}});
  Observation unreadable;
  unreadable.watched = {cgroup("/a", mib(64), mib(1), 2)};
  unreadable.watched[0].usage.reset();
  const auto assessment = assess(config, series, unreadable);
  EXPECT_THAT(assessment.evidence, IsEmpty());
  // The pods cgroup was removed, and its series with it.
  EXPECT_THAT(assessment.state.driving, ElementsAre(ThresholdId{0, {}}, ThresholdId{2, a}));
}

TEST(ThresholdsTest, ASoftThresholdIsShownButDoesNotDriveInItsGrace) {
  const Config config = policy::config({soft(hard(kNode, gib(2))), hard(kNode, gib(1))});
  const auto assessment = assess(config, {}, node_at(gib(1) + mib(1)));
  ASSERT_EQ(assessment.evidence.size(), 2U);
  EXPECT_TRUE(assessment.evidence[0].met);
  EXPECT_FALSE(assessment.evidence[0].threshold.hard());
  EXPECT_EQ(assessment.evidence[0].first_met, MonotonicTime());
  EXPECT_THAT(assessment.crossings, IsEmpty());
  EXPECT_THAT(assessment.state.driving, IsEmpty());
  EXPECT_EQ(assessment.state.met.size(), 1U);
}

TEST(ThresholdsTest, AThresholdWithoutGraceIsHardEvenIfItWasCalledSoft) {
  const Config config = policy::config({soft(hard(kNode, gib(1)), Duration(0))});
  EXPECT_EQ(assess(config, {}, node_at(mib(1))).crossings.size(), 1U);
}

// A quantity is compared as the decimal it is: half a byte is more than no byte.
TEST(ThresholdsTest, FractionsOfAByteCount) {
  Threshold threshold = hard(kNode, {0});
  threshold.limit.quantity = Quantity{500'000'000, QuantityFormat::decimal_si};
  const Config config = policy::config({threshold});
  EXPECT_TRUE(assess(config, {}, node_at({0})).evidence[0].met);
  EXPECT_FALSE(assess(config, {}, node_at({1})).evidence[0].met);
}

TEST(ThresholdsTest, ASharesAmountIsCutToAWholeNumber) {
  const Config config = policy::config({share(kNode, 0.10F)});
  Observation observation;
  observation.node = node({1009}, {100});
  // 0.1 as a 32-bit float is a little more than a tenth: 100.9... is truncated to 100.
  EXPECT_EQ(assess(config, {}, observation).evidence[0].limit.value(), 100);
  EXPECT_FALSE(assess(config, {}, observation).evidence[0].met);
}

TEST(ThresholdsTest, TimeThatRunsBackwardsIsNoReasonToWait) {
  const Config config = policy::config({hard(kNode, gib(1))});
  Observation observation = node_at(mib(1));
  observation.at = second(10);
  const State state = assess(config, {}, observation).state;
  observation.at = second(5);
  EXPECT_EQ(assess(config, state, observation).crossings.size(), 1U);
}

TEST(ThresholdsTest, EvidenceListsMetOnesFirst) {
  const Config config = policy::config(
      {hard(kNode, mib(1)), hard(kNode, gib(2)), hard(kNode, mib(2)), hard(kNode, gib(1))});
  const auto assessment = assess(config, {}, node_at(mib(500)));
  std::vector<std::int64_t> limits;
  for (const Evidence& evidence : assessment.evidence) limits.push_back(evidence.limit.value());
  EXPECT_THAT(limits, ElementsAre(gib(2).count, gib(1).count, mib(1).count, mib(2).count));
  ASSERT_EQ(assessment.crossings.size(), 2U);
  EXPECT_EQ(assessment.crossings[0].evidence, 0U);
  EXPECT_EQ(assessment.crossings[1].evidence, 1U);
}

TEST(ThresholdsTest, KubeletsSignalsActInConfigurationOrder) {
  Observation observation = node_at(mib(1));
  observation.pods = cgroup("/kubepods", gib(4), mib(1));
  EXPECT_THAT(acting_order(config({hard(kNode, gib(1)), hard(kPods, gib(1))}), observation),
              ElementsAre("node", "/kubepods"));
  EXPECT_THAT(acting_order(config({hard(kPods, gib(1)), hard(kNode, gib(1))}), observation),
              ElementsAre("/kubepods", "node"));
}

TEST(ThresholdsTest, ACgroupAtItsOwnLimitActsBeforeTheNode) {
  Observation observation = node_at(mib(1));
  observation.watched = {cgroup("/a", mib(64), mib(5), 1)};
  EXPECT_THAT(acting_order(config({hard(kNode, gib(1)), hard(kCgroup, mib(10))}), observation),
              ElementsAre("/a", "node"));
}

TEST(ThresholdsTest, HardOnesActBeforeSoftOnesWhereverTheyAre) {
  Observation observation = node_at(mib(1));
  observation.watched = {cgroup("/a", mib(64), mib(5), 0), cgroup("/a/b", mib(64), mib(5), 2)};
  Config config = policy::config({soft(hard(kCgroup, mib(10)), std::chrono::seconds(1)),
                                  hard(kNode, gib(1)), hard(kCgroup, mib(10))});
  const State state = assess(config, {}, observation).state;
  observation.at = second(1);
  const Assessment later = assess(config, state, observation);
  std::vector<std::string> subjects;
  for (const Crossing& crossing : later.crossings) {
    subjects.push_back(later.evidence[crossing.evidence].subject);
  }
  EXPECT_THAT(subjects, ElementsAre("/a/b", "node", "/a"));
}

TEST(ThresholdsTest, InnerCgroupsActBeforeOuterOnesAndTheFullestFirst) {
  Observation observation;
  observation.watched = {cgroup("/a", mib(64), mib(1)), cgroup("/a/b", mib(64), mib(9)),
                         cgroup("/c", mib(64), mib(2)), cgroup("/d/e", mib(64), mib(3))};
  EXPECT_THAT(acting_order(config({hard(kCgroup, mib(10))}), observation),
              ElementsAre("/d/e", "/a/b", "/a", "/c"));
}

TEST(ThresholdsTest, AWatchedCgroupOfAnotherConfigurationIsIgnored) {
  Observation observation = node_at(gib(4));
  observation.watched = {cgroup("/a", mib(64), mib(1), 7), cgroup("/b", mib(64), mib(1), 0)};
  EXPECT_EQ(assess(config({hard(kNode, mib(10))}), {}, observation).evidence.size(), 1U);
}

}  // namespace
}  // namespace forestall::policy
