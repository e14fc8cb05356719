// SPDX-License-Identifier: Apache-2.0
// Which evaluation explains a kill, and what is recorded.
#include "agent/oom_kill_reporter.h"

#include <gtest/gtest.h>

#include "support/record_collector.h"

namespace forestall::agent {
namespace {

MonotonicTime ms(std::int64_t n) {
  return from_ns(n * 1'000'000);
}

// An evaluation of the node, identified by the time of its decision.
Record evaluate_at(MonotonicTime decided) {
  Record record;
  record.sequence = 999;
  record.observation.at = decided - Duration(1000);
  record.stages.decided = decided;
  record.observation.workloads.emplace().emplace_back();
  record.decision.considered.emplace_back();
  return record;
}

OomKillEvent node_kill(MonotonicTime at) {
  OomKillEvent kill;
  kill.at = at;
  kill.victim = {42, 7};
  kill.constraint = Constraint::none;
  return kill;
}

class OomKillsTest : public testing::Test {
 protected:
  OomKillsTest() {
    Threshold threshold;
    threshold.limit = Limit::bytes(mib(100));
    config_.thresholds = {threshold};
  }

  const Record& report(const OomKillEvent& kill, MonotonicTime now) {
    kills_.report(kill, config_, now, 1'000'000'000);
    return sink_.records.back();
  }

  test::RecordCollector sink_;
  std::vector<exports::RecordSink*> sinks_{&sink_};
  RecordWriter writer_{sinks_};
  sources::OomEventCorrelator no_events_;
  LoopPredictor unpredicted_;
  exports::LoopCounts counts_;
  OomKillReporter kills_{no_events_, unpredicted_, writer_, counts_};
  Config config_;
};

TEST_F(OomKillsTest, TheLastEvaluationBeforeTheKillExplainsIt) {
  kills_.keep(evaluate_at(ms(10)), {});
  kills_.keep(evaluate_at(ms(20)), {});
  kills_.keep(evaluate_at(ms(30)), {});
  const Record& record = report(node_kill(ms(25)), ms(35));
  EXPECT_EQ(record.stages.decided, ms(20));
  EXPECT_EQ(record.sequence, 1U);
  EXPECT_EQ(record.wall_time_ns, 990'000'000);
  EXPECT_EQ(record.oom_kill->event, node_kill(ms(25)));
  EXPECT_FALSE(record.oom_kill->forecast);
  EXPECT_EQ(record.decision.considered.size(), 1U);
}

TEST_F(OomKillsTest, TheFirstEvaluationExplainsAnEarlierKill) {
  kills_.keep(evaluate_at(ms(10)), {});
  EXPECT_EQ(report(node_kill(ms(5)), ms(11)).stages.decided, ms(10));
}

TEST_F(OomKillsTest, MeasuresACrossingBetweenEvaluationAndKill) {
  kills_.keep(evaluate_at(ms(10)), {});
  kills_.note({WakeSource::usage_timer, ms(22), std::nullopt, mib(1)}, ms(22));
  kills_.note({WakeSource::charge, ms(23), CgroupId{5}, mib(1)}, ms(23));          // of another
  kills_.note({WakeSource::reclaim, ms(21), std::nullopt, std::nullopt}, ms(21));  // hints only
  kills_.note({WakeSource::charge, ms(30), std::nullopt, mib(1)}, ms(30));         // after the kill
  kills_.keep(evaluate_at(ms(31)), {});
  const OomKill& kill = *report(node_kill(ms(25)), ms(40)).oom_kill;
  EXPECT_EQ(kill.inaction, Inaction::too_fast);
  EXPECT_EQ(kill.since_crossing, std::chrono::milliseconds(3));
}

// The loop reads the crossing four seconds after the kernel.
TEST_F(OomKillsTest, NamesAnAgentThatDidNotRun) {
  kills_.keep(evaluate_at(ms(10)), {});
  kills_.note({WakeSource::usage_timer, ms(1000), std::nullopt, mib(1)}, ms(6000));
  const OomKill& kill = *report(node_kill(ms(5000)), ms(6000)).oom_kill;
  EXPECT_EQ(kill.inaction, Inaction::stopped);
  EXPECT_EQ(kill.since_crossing, std::chrono::seconds(4));
  EXPECT_EQ(kill.agent_away, std::chrono::seconds(4));
}

// No source reports crossings; the loop is late for its recheck.
TEST_F(OomKillsTest, ALoopThatIsLateDidNotRun) {
  kills_.keep(evaluate_at(ms(10)), {});
  kills_.note_absence(ms(1000), ms(6000));
  EXPECT_EQ(report(node_kill(ms(5000)), ms(6000)).oom_kill->inaction, Inaction::stopped);
  EXPECT_NE(report(node_kill(ms(1100)), ms(6000)).oom_kill->inaction, Inaction::stopped)
      << "not for long";
  EXPECT_NE(report(node_kill(ms(6100)), ms(6200)).oom_kill->inaction, Inaction::stopped)
      << "it runs again";
  EXPECT_NE(report(node_kill(ms(900)), ms(6000)).oom_kill->inaction, Inaction::stopped);
}

TEST_F(OomKillsTest, IgnoresACrossingThatWasEvaluated) {
  kills_.note({WakeSource::usage_timer, ms(8), std::nullopt, mib(1)}, ms(8));
  kills_.keep(evaluate_at(ms(10)), {});
  EXPECT_NE(report(node_kill(ms(25)), ms(40)).oom_kill->inaction, Inaction::too_fast);
}

TEST_F(OomKillsTest, ThoseThatDieWithAnotherCarryNoCandidates) {
  kills_.keep(evaluate_at(ms(10)), {});
  OomKillEvent kill = node_kill(ms(25));
  kill.with_another = true;
  const Record& record = report(kill, ms(40));
  EXPECT_FALSE(record.observation.workloads);
  EXPECT_TRUE(record.decision.considered.empty());
}

TEST_F(OomKillsTest, KeepsEvaluationsForASecondAndAlwaysTheLast) {
  kills_.keep(evaluate_at(ms(10)), {});
  for (int i = 0; i < 1000; ++i) kills_.keep(evaluate_at(ms(20'000 + i)), {});
  // Of a burst, the newest are kept.
  EXPECT_EQ(report(node_kill(ms(20'990)), ms(21'010)).stages.decided, ms(20'990));
  EXPECT_EQ(report(node_kill(ms(15'000)), ms(21'010)).stages.decided,
            ms(21'000 - static_cast<std::int64_t>(OomKillReporter::kEvaluationsMax)));
  kills_.keep(evaluate_at(ms(90'000)), {});
  EXPECT_EQ(report(node_kill(ms(89'000)), ms(90'001)).stages.decided, ms(20'999));
  kills_.keep(evaluate_at(ms(90'500)), {});
  EXPECT_EQ(report(node_kill(ms(89'900)), ms(90'501)).stages.decided, ms(20'999));
  kills_.keep(evaluate_at(ms(92'000)), {});
  EXPECT_EQ(report(node_kill(ms(91'000)), ms(92'001)).stages.decided, ms(90'500));
}

}  // namespace
}  // namespace forestall::agent
