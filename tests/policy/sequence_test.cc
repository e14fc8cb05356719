// SPDX-License-Identifier: Apache-2.0
// Sequences of node states over time: grace periods, oscillation, minimum reclaim, conditions, and
// hard thresholds crossed during a soft kill.
#include <gtest/gtest.h>

#include "policy/conditions.h"
#include "policy/deadlines.h"
#include "tests/policy/pods.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kNode = Signal::memory_available;

MonotonicTime minute(double count) {
  return second(count * 60);
}

Story node_run(std::vector<Threshold> thresholds) {
  Story run(config(std::move(thresholds)));
  run.now.workloads = {workload("/leak", gib(3))};
  return run;
}

std::string evaluate_at(Story& run, MonotonicTime at, Bytes available) {
  run.now.node = node(gib(8), available);
  return run.evaluate(at);
}

// The example of the Kubernetes documentation (node-pressure-eviction): hard 1Gi, soft 2Gi for 2
// minutes, transition 5 minutes, at most 5 s of grace.
TEST(SequenceTest, TheReferenceControlLoop) {
  Config config = policy::config({hard(kNode, gib(1)), soft(hard(kNode, gib(2)), minutes(2))});
  config.pressure_transition = minutes(5);
  config.max_pod_grace_seconds = 5;
  Story run(config);
  run.now.workloads = {workload("/leak", gib(3))};
  EXPECT_EQ(evaluate_at(run, minute(0), gib(2)), "none: no-threshold-met");
  EXPECT_EQ(run.conditions(), "");
  EXPECT_EQ(evaluate_at(run, minute(1), mib(1500)), "none: in-grace");
  EXPECT_EQ(run.conditions(), "MemoryPressure*");
  EXPECT_EQ(evaluate_at(run, minute(4), mib(1500)), "kill /leak for node");
  EXPECT_EQ(run.conditions(), "MemoryPressure");
  EXPECT_EQ(run.decision().evictions[0].grace, seconds(5));
  EXPECT_FALSE(run.decision().evictions[0].at_once);
  EXPECT_EQ(evaluate_at(run, minute(24), gib(3)), "none: no-threshold-met");
  EXPECT_EQ(run.conditions(), "-MemoryPressure*");
  EXPECT_EQ(evaluate_at(run, minute(25), mib(500)), "kill /leak for node");
  EXPECT_EQ(run.conditions(), "MemoryPressure*");
  EXPECT_EQ(run.decision().evictions[0].grace, seconds(1));
  EXPECT_TRUE(run.decision().evictions[0].at_once);
  EXPECT_EQ(evaluate_at(run, minute(26), gib(2)), "none: no-threshold-met");
  EXPECT_EQ(run.conditions(), "MemoryPressure");
  EXPECT_EQ(evaluate_at(run, minute(31), gib(2)), "none: no-threshold-met");
  EXPECT_EQ(run.conditions(), "-MemoryPressure*");
}

TEST(SequenceTest, AGracePeriodEndsAtItsVeryEnd) {
  Story run = node_run({soft(hard(kNode, gib(2)), seconds(30))});
  EXPECT_EQ(evaluate_at(run, second(10), gib(1)), "none: in-grace");
  EXPECT_EQ(next_deadline(run.config(), run.state()), second(40));
  EXPECT_EQ(evaluate_at(run, second(39.999), gib(1)), "none: in-grace");
  EXPECT_EQ(run.decision().evidence[0].first_met, second(10));
  EXPECT_FALSE(run.decision().evidence[0].driving);
  EXPECT_EQ(evaluate_at(run, second(40), gib(1)), "kill /leak for node");
  EXPECT_TRUE(run.decision().evidence[0].driving);
}

TEST(SequenceTest, RecoveryInsideTheGraceStartsItAnew) {
  Story run = node_run({soft(hard(kNode, gib(2)), seconds(30))});
  for (const int round : {0, 1, 2, 3}) {
    const double start = round * 40;
    EXPECT_EQ(evaluate_at(run, second(start), gib(1)), "none: in-grace") << round;
    EXPECT_EQ(evaluate_at(run, second(start + 29), gib(1)), "none: in-grace") << round;
    EXPECT_EQ(evaluate_at(run, second(start + 29.5), gib(2)), "none: no-threshold-met") << round;
    EXPECT_EQ(evaluate_at(run, second(start + 30), gib(1)), "none: in-grace") << round;
    EXPECT_EQ(evaluate_at(run, second(start + 35), gib(2)), "none: no-threshold-met") << round;
    EXPECT_EQ(run.conditions(), "MemoryPressure") << "an oscillation does not reach the condition";
  }
}

TEST(SequenceTest, AnUnreadableSignalDoesNotRestartTheGrace) {
  Story run = node_run({soft(hard(kNode, gib(2)), seconds(30))});
  evaluate_at(run, second(0), gib(1));
  run.now.node.usage.reset();
  EXPECT_EQ(run.evaluate(20), "none: no-data");
  EXPECT_EQ(evaluate_at(run, second(30), gib(1)), "kill /leak for node");
}

// A soft threshold has caused an eviction: from then on its minimum reclaim counts as well.
TEST(SequenceTest, MinimumReclaimCountsOnceAThresholdDrives) {
  Threshold threshold = soft(hard(kNode, gib(2), mib(500)), seconds(30));
  Story run = node_run({threshold});
  evaluate_at(run, second(0), gib(1));
  EXPECT_EQ(evaluate_at(run, second(10), gib(2) + mib(1)), "none: no-threshold-met")
      << "it did not drive yet";
  evaluate_at(run, second(20), gib(1));
  EXPECT_EQ(evaluate_at(run, second(50), gib(1)), "kill /leak for node");
  EXPECT_EQ(evaluate_at(run, second(60), gib(2) + mib(499)), "kill /leak for node");
  EXPECT_EQ(evaluate_at(run, second(70), gib(2) + mib(500)), "none: no-threshold-met");
  EXPECT_EQ(evaluate_at(run, second(80), gib(2) + mib(1)), "none: no-threshold-met");
}

TEST(SequenceTest, AConditionLastsForTheTransitionPeriodToTheNanosecond) {
  Config config = policy::config({hard(kNode, gib(1))});
  config.pressure_transition = seconds(300);
  Story run(config);
  evaluate_at(run, second(1), mib(1));
  EXPECT_EQ(run.conditions(), "MemoryPressure*");
  evaluate_at(run, second(2), gib(1));
  EXPECT_EQ(next_deadline(config, run.state()), second(301));
  evaluate_at(run, second(301) - Duration(1), gib(1));
  EXPECT_EQ(run.conditions(), "MemoryPressure");
  evaluate_at(run, second(301), gib(1));
  EXPECT_EQ(run.conditions(), "-MemoryPressure*");
  EXPECT_EQ(run.decision().conditions[0].last_met, second(1));
  EXPECT_EQ(next_deadline(config, run.state()), std::nullopt);
}

TEST(SequenceTest, TheSameReadingIsActedUponOnce) {
  Story run = node_run({hard(kNode, gib(1))});
  run.now.node = node(gib(8), mib(1));
  run.now.node.at = second(5);
  EXPECT_EQ(run.evaluate(5), "kill /leak for node");
  EXPECT_EQ(run.evaluate(6), "none for node: statistics-not-newer");
  EXPECT_EQ(run.conditions(), "MemoryPressure") << "still reported";
  EXPECT_EQ(run.state().driving.size(), 1U) << "and still driving";
  run.now.node.at = second(5) + Duration(1);
  EXPECT_EQ(run.evaluate(7), "kill /leak for node");
}

TEST(SequenceTest, AGraceThatEndsOnAnOldReadingWaitsForANewOne) {
  Story run = node_run({soft(hard(kNode, gib(1)), seconds(30))});
  run.now.node = node(gib(8), mib(1));
  run.now.node.at = second(0);
  EXPECT_EQ(run.evaluate(0), "none: in-grace");
  EXPECT_EQ(run.evaluate(30), "none for node: statistics-not-newer");
  run.now.node.at = second(31);
  EXPECT_EQ(run.evaluate(31), "kill /leak for node");
}

// The read that an inspection requests belongs to the same pass.
TEST(SequenceTest, RequestingTheWorkloadsDoesNotUseUpTheReading) {
  Story run = node_run({hard(kNode, gib(1))});
  run.now.node = node(gib(8), mib(1));
  run.now.node.at = second(5);
  run.now.workloads.reset();
  EXPECT_EQ(run.evaluate(5), "inspect for node: workloads-unread");
  run.now.workloads = {workload("/leak", gib(3))};
  EXPECT_EQ(run.evaluate(6), "kill /leak for node");
}

TEST(SequenceTest, ASoftKillUnderWayDelaysOnlySoftOnes) {
  Story run = node_run({hard(kNode, mib(500)), soft(hard(kNode, gib(2)), seconds(30))});
  evaluate_at(run, second(0), gib(1));
  EXPECT_EQ(evaluate_at(run, second(30), gib(1)), "kill /leak for node");
  KillProgress soft_kill = kill("/leak", gib(3), KillState::terminating);
  soft_kill.started = second(30);
  soft_kill.kill_at = second(3630);
  run.now.kills = {soft_kill};
  EXPECT_EQ(evaluate_at(run, second(31), gib(1)), "none for node: cleanup-pending");
  EXPECT_EQ(run.decision().evidence[0].pending_release, 0) << "nothing is on its way yet";
  EXPECT_EQ(evaluate_at(run, second(600), gib(1)), "none for node: cleanup-pending")
      << "however long it takes";
  EXPECT_EQ(evaluate_at(run, second(601), mib(400)), "kill /leak for node");
  EXPECT_TRUE(run.decision().evictions[0].at_once);
  run.now.kills[0].state = KillState::in_flight;
  EXPECT_EQ(evaluate_at(run, second(602), mib(400)), "none for node: release-pending");
}

// Without Compat::hard_at_once a hard victim has a second to exit: meanwhile no workload is chosen.
TEST(SequenceTest, AHardKillWithGraceIsNotRepeated) {
  Config config = policy::config({hard(kNode, gib(1))});
  config.compat.hard_at_once = false;
  Story run(config);
  run.now.workloads = {workload("/leak", gib(3)), workload("/other", gib(2))};
  EXPECT_EQ(evaluate_at(run, second(0), mib(1)), "kill /leak for node");
  EXPECT_FALSE(run.decision().evictions[0].at_once);
  run.now.kills = {kill("/leak", gib(3), KillState::terminating)};
  run.now.kills[0].kill_at = second(1);
  EXPECT_EQ(evaluate_at(run, second(0.01), mib(1)), "none for node: cleanup-pending");
  run.now.kills[0].kill_at = second(30);
  EXPECT_EQ(evaluate_at(run, second(0.02), mib(1)), "kill /leak for node")
      << "a soft one gives way";
  EXPECT_EQ(next_deadline(config, run.state()), second(29));
}

// A SIGKILL that is due and does not come must not delay a hard threshold.
TEST(SequenceTest, AnOverdueKillIsNotWaitedFor) {
  Story run = node_run({hard(kNode, gib(1))});
  run.now.kills = {kill("/leak", gib(3), KillState::terminating)};
  run.now.kills[0].kill_at = second(10);
  EXPECT_EQ(evaluate_at(run, second(10), mib(1)), "none for node: cleanup-pending");
  EXPECT_EQ(next_deadline(run.config(), run.state()), second(11));
  EXPECT_EQ(evaluate_at(run, second(11), mib(1)), "kill /leak for node");
}

TEST(SequenceTest, AReloadKeepsTheReportedConditions) {
  const Config config = policy::config({hard(kNode, gib(1))});
  Observation observation;
  observation.at = second(1);
  observation.node = node(gib(8), mib(1));
  const State before = step(config, {}, observation).state;
  const State after = reloaded(before);
  EXPECT_TRUE(after.driving.empty());
  observation.at = second(2);
  EXPECT_EQ(reported(step(policy::config({}), after, observation).decision.conditions),
            "MemoryPressure");
  observation.at = second(301);
  EXPECT_EQ(reported(step(policy::config({}), after, observation).decision.conditions),
            "-MemoryPressure*");
}

TEST(SequenceTest, OneKillUntilCleanup) {
  Config config = policy::config({hard(kNode, gib(1))});
  config.compat.one_kill_until_cleanup = true;
  Story run(config);
  run.now.workloads = {workload("/leak", mib(10)), workload("/other", mib(5))};
  EXPECT_EQ(evaluate_at(run, second(0), mib(1)), "kill /leak for node");
  run.now.kills = {kill("/leak", {0})};
  EXPECT_EQ(evaluate_at(run, second(1), mib(11)), "none for node: cleanup-pending");
  run.now.kills[0].state = KillState::released;
  EXPECT_EQ(evaluate_at(run, second(2), mib(11)), "none for node: cleanup-pending");
  run.now.workloads->erase(run.now.workloads->begin());
  EXPECT_EQ(evaluate_at(run, second(3), mib(11)), "kill /other for node");
}

// Order of actions over time: hard before soft, so that a soft threshold never delays a hard one.
TEST(SequenceTest, WithBothDrivingTheHardOneActs) {
  Story run = node_run({soft(hard(kNode, gib(2)), seconds(1)), hard(kNode, gib(1))});
  evaluate_at(run, second(0), mib(1));
  evaluate_at(run, second(1), mib(1));
  EXPECT_TRUE(run.decision().evidence[*run.decision().driving].threshold.hard());
  EXPECT_TRUE(run.decision().evictions[0].at_once);
}

// A kill on a pre-ranked list: the step after it finds the memory free again.
TEST(SequenceTest, KeepsThePressureOfAStepWithoutItsState) {
  constexpr auto kMemory = static_cast<std::size_t>(Condition::memory_pressure);
  Reports of_kill{};
  Pressure met{};
  met[kMemory] = true;
  static_cast<void>(report(met, minutes(5), second(7), of_kill));
  Reports kept{};
  keep_pressure(of_kill, kept);
  const Conditions after = report(Pressure{}, minutes(5), second(8), kept);
  EXPECT_TRUE(after[kMemory].status);
  EXPECT_TRUE(after[kMemory].changed) << "it was not reported before";
  EXPECT_EQ(after[kMemory].last_met, second(7));
  Reports older{};
  older[kMemory].last_met = second(3);
  keep_pressure(older, kept);
  EXPECT_EQ(kept[kMemory].last_met, second(7));
}

}  // namespace
}  // namespace forestall::policy
