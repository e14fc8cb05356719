// SPDX-License-Identifier: Apache-2.0
#include "exports/stage_histograms.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace forestall::exports {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Record killed(KillState state) {
  Record record;
  record.sequence = 7;
  record.stages = {from_ns(1'000'000), from_ns(1'011'000), from_ns(1'211'000), from_ns(1'216'000)};
  Outcome& outcome = record.outcome.emplace();
  outcome.state = state;
  outcome.signalled = from_ns(1'366'000);
  return record;
}

TEST(StageLengths, AreFromTheStageBeforeAndThenFromTheSignal) {
  Record record = killed(KillState::released);
  record.outcome->exited = from_ns(31'366'000);
  record.outcome->released = from_ns(11'366'000);
  const StageLengths lengths = stage_lengths(record);
  EXPECT_EQ(lengths,
            (StageLengths{microseconds(11), microseconds(200), microseconds(5), microseconds(150),
                          milliseconds(30), milliseconds(10), microseconds(366)}));
}

TEST(StageLengths, CountFromTheLastReadingBeforeTheCrossing) {
  Record record = killed(KillState::released);
  record.crossing.emplace().above = {from_ns(511'000), 5};
  record.crossing->below = {from_ns(1'100'000), 3};
  const StageLengths lengths = stage_lengths(record);
  EXPECT_EQ(lengths[0], microseconds(500));
  EXPECT_EQ(lengths[6], microseconds(855));
}

TEST(StageLengths, AreUnknownIfNoReadingBeforeTheCrossingIsKnown) {
  Record record = killed(KillState::released);
  record.crossing.emplace();
  EXPECT_FALSE(stage_lengths(record)[0]);
  EXPECT_FALSE(stage_lengths(record)[6]);
}

TEST(StageLengths, AGracePeriodIsNoReaction) {
  Record record = killed(KillState::released);
  record.decision.evictions.emplace_back().at_once = false;
  record.crossing.emplace().above = {from_ns(1000), 5};
  EXPECT_EQ(stage_lengths(record)[0], microseconds(11));
  EXPECT_FALSE(stage_lengths(record)[6]);
}

TEST(StageLengths, OmitsUnreachedStages) {
  Record record = killed(KillState::failed);
  record.outcome->signalled.reset();
  const StageLengths lengths = stage_lengths(record);
  EXPECT_TRUE(lengths[2]);
  for (std::size_t i = 3; i < kStageCount; ++i) EXPECT_FALSE(lengths[i]);
  record.outcome.reset();
  EXPECT_TRUE(stage_lengths(record)[0]);
}

TEST(StageLengths, AreNeverNegative) {
  Record record = killed(KillState::released);
  record.stages.woken = record.stages.crossed - Duration(40);
  EXPECT_EQ(stage_lengths(record)[0], Duration::zero());
}

TEST(StageHistograms, BoundsGoFromTenMicrosecondsToTenSeconds) {
  const auto& bounds = StageHistograms::bounds();
  EXPECT_EQ(bounds.front(), microseconds(10));
  EXPECT_EQ(bounds[3], microseconds(20));
  EXPECT_EQ(bounds[10], microseconds(100));
  EXPECT_EQ(bounds.back(), seconds(10));
  for (std::size_t i = 1; i < bounds.size(); ++i) EXPECT_LT(bounds[i - 1], bounds[i]);
}

TEST(StageHistograms, QuantilesAreBoundsAndTheMaximumIsExact) {
  StageHistograms stages;
  EXPECT_EQ(stages.summary(Stage::wake).p99, Duration::zero());
  for (int i = 0; i < 98; ++i) stages.count(Stage::wake, microseconds(17));
  stages.count(Stage::wake, microseconds(950));
  stages.count(Stage::wake, milliseconds(47));
  const StageSummary summary = stages.summary(Stage::wake);
  EXPECT_EQ(summary.count, 100U);
  EXPECT_EQ(summary.p50, microseconds(20));
  EXPECT_EQ(summary.p90, microseconds(20));
  EXPECT_EQ(summary.p99, milliseconds(1));
  EXPECT_EQ(summary.max, milliseconds(47));
  EXPECT_EQ(summary.sum, microseconds(98 * 17 + 950 + 47'000));
  EXPECT_EQ(stages.summary(Stage::freed).count, 0U);
}

TEST(StageHistograms, CountsExtremesWithoutOverflow) {
  StageHistograms stages;
  stages.count(Stage::exit, Duration::max());
  stages.count(Stage::exit, Duration::max());
  stages.count(Stage::exit, Duration::zero());
  stages.count(Stage::exit, Duration(-5));
  const StageSummary summary = stages.summary(Stage::exit);
  EXPECT_EQ(summary.count, 4U);
  EXPECT_EQ(summary.p50, microseconds(10));
  EXPECT_EQ(summary.p99, Duration::max());
  EXPECT_EQ(summary.sum, Duration::max());
  EXPECT_EQ(stages.within(Stage::exit, seconds(10)), 2U);
}

TEST(StageHistograms, AStuckKillCountsEachStageOnce) {
  StageHistograms stages;
  Record record = killed(KillState::stuck);
  stages.write(record);
  record.outcome->state = KillState::released;
  record.outcome->exited = from_ns(2'000'000'000);
  record.outcome->released = from_ns(2'000'000'000);
  stages.write(record);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    EXPECT_EQ(stages.summary(static_cast<Stage>(i)).count, 1U) << to_string(static_cast<Stage>(i));
  }
}

TEST(StageHistograms, ADecisionAloneIsNoKill) {
  StageHistograms stages;
  Record record = killed(KillState::released);
  record.outcome.reset();
  stages.write(record);
  EXPECT_EQ(stages.summary(Stage::wake).count, 0U);
}

TEST(StageHistograms, CanBeReadWhileItCounts) {
  StageHistograms stages;
  std::atomic<bool> over = false;
  std::thread reader([&] {
    std::uint64_t last = 0;
    while (!over) {
      const std::uint64_t count = stages.summary(Stage::observe).count;
      EXPECT_GE(count, last);
      last = count;
    }
  });
  for (int i = 0; i < 10000; ++i) stages.count(Stage::observe, microseconds(i));
  over = true;
  reader.join();
  EXPECT_EQ(stages.summary(Stage::observe).count, 10000U);
}

}  // namespace
}  // namespace forestall::exports
