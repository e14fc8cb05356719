// SPDX-License-Identifier: Apache-2.0
// Whole steps on literal worlds: decisions and their reasons.
#include "policy/step.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy::step_test {
namespace {

constexpr auto kNode = Signal::memory_available;
constexpr auto kPods = Signal::allocatable_memory_available;
constexpr auto kCgroup = Signal::cgroup_memory_available;

std::string decide(const Config& config, const Observation& observation, const State& state = {}) {
  return reported(step(config, state, observation).decision);
}

TEST(StepTest, NothingToDecideOn) {
  EXPECT_EQ(decide(config({}), node_at(gib(1))), "none: no-data");
  EXPECT_EQ(decide(config({hard(kNode, gib(1))}), {}), "none: no-data");
  EXPECT_EQ(decide(config({hard(kPods, gib(1))}), node_at({0})), "none: no-data");
}

TEST(StepTest, NothingMet) {
  EXPECT_EQ(decide(config({hard(kNode, gib(1))}), node_at(gib(1))), "none: no-threshold-met");
}

TEST(StepTest, ASoftThresholdWaitsOutItsGrace) {
  Observation observation = node_at(mib(1));
  EXPECT_EQ(decide(config({soft(hard(kNode, gib(1)))}), observation), "none: in-grace");
  observation.workloads = {workload("/a", gib(1))};
  const auto result = step(config({soft(hard(kNode, gib(1)))}), {}, observation);
  EXPECT_EQ(result.decision.action, Action::none);
  ASSERT_EQ(result.decision.evidence.size(), 1U);
  EXPECT_TRUE(result.decision.evidence[0].met) << "it must not vanish";
}

TEST(StepTest, MetAndUnreadRequestsTheWorkloads) {
  Observation observation = node_at(mib(1));
  EXPECT_EQ(decide(config({hard(kNode, gib(1))}), observation),
            "inspect for node: workloads-unread");
  observation.workloads.emplace();  // read, and there are none
  EXPECT_EQ(decide(config({hard(kNode, gib(1))}), observation), "none for node: no-candidates");
}

TEST(StepTest, InspectionIsAsNarrowAsTheNeed) {
  const Config config = policy::config({hard(kNode, gib(1)), hard(kCgroup, mib(10))});
  Observation observation = node_at(gib(4));
  observation.watched = {cgroup("/a", mib(64), mib(1), 1), cgroup("/b", mib(64), mib(30), 1)};
  EXPECT_EQ(inspection_subject(step(config, {}, observation).decision), "/a");
  observation.watched[1].usage = mib(63);
  EXPECT_EQ(inspection_subject(step(config, {}, observation).decision), "") << "two in need";
  observation.watched.clear();
  observation.node = node(gib(8), mib(1));
  EXPECT_EQ(inspection_subject(step(config, {}, observation).decision), "") << "the node";
  observation.node = node(gib(8), gib(4));
  EXPECT_EQ(inspection_subject(step(config, {}, observation).decision), "") << "no subject";
}

TEST(StepTest, KillsTheFirstInRankAndShowsEverybody) {
  Observation observation = node_at(mib(1));
  observation.workloads = {workload("/kept", mib(900), 10), workload("/leak", mib(800), 0),
                           workload("/idle", mib(1), 0)};
  const Step result = step(config({hard(kNode, gib(1))}), {}, observation);
  EXPECT_EQ(reported(result.decision), "kill /leak for node");
  EXPECT_EQ(result.decision.reason, Reason::threshold_met);
  EXPECT_EQ(result.decision.considered.size(), 3U);
  EXPECT_EQ(result.state.driving, (std::vector<ThresholdId>{{0, {}}}));
}

TEST(StepTest, PassesOverProtectedEmptyTriedAndDying) {
  Observation observation = node_at(mib(1));
  observation.workloads = {with_protection(workload("/protected", gib(5)), Protection::declared),
                           with_processes(workload("/empty", gib(4)), 0),
                           workload("/tried", gib(3)), workload("/dying", gib(2)),
                           workload("/next", mib(1))};
  observation.kills = {kill("/tried", gib(3), KillState::stuck), kill("/dying", mib(1))};
  EXPECT_EQ(decide(config({hard(kNode, gib(1))}), observation), "kill /next for node");
  observation.workloads->pop_back();
  const Step result = step(config({hard(kNode, gib(1))}), {}, observation);
  EXPECT_EQ(reported(result.decision), "none for node: all-protected");
  EXPECT_EQ(result.decision.considered.size(), 4U);
}

TEST(StepTest, AnUnkillableVictimGivesWayToTheNext) {
  const Config config = policy::config({hard(kNode, gib(1))});
  Observation observation = node_at(mib(900));
  observation.workloads = {workload("/first", gib(3)), workload("/second", gib(2))};
  EXPECT_EQ(decide(config, observation), "kill /first for node");
  observation.kills = {kill("/first", gib(3))};
  EXPECT_EQ(decide(config, observation), "none for node: release-pending");
  observation.kills[0].state = KillState::stuck;
  EXPECT_EQ(decide(config, observation), "kill /second for node");
  observation.kills.push_back(kill("/second", gib(2), KillState::failed));
  EXPECT_EQ(decide(config, observation), "none for node: all-protected");
}

TEST(StepTest, OneCrossingCostsOneVictimWhileItsMemoryComesBack) {
  const Config config = policy::config({hard(kNode, gib(1), mib(500))});
  Observation observation = node_at(mib(900));
  observation.workloads = {workload("/leak", gib(2)), workload("/other", gib(1))};
  Step now = step(config, {}, observation);
  EXPECT_EQ(reported(now.decision), "kill /leak for node");
  for (const std::int64_t back : {0, 500, 1000, 1500, 1900}) {
    observation.at += std::chrono::milliseconds(10);
    observation.node = node(gib(8), mib(900 + back));
    observation.kills = {kill("/leak", gib(2) - mib(back))};
    now = step(config, now.state, observation);
    EXPECT_EQ(now.decision.action, Action::none) << back;
  }
  observation.at += std::chrono::milliseconds(10);
  observation.node = node(gib(8), mib(900) + gib(2));
  observation.kills.clear();
  now = step(config, now.state, observation);
  EXPECT_EQ(reported(now.decision), "none: no-threshold-met");
  EXPECT_TRUE(now.state.driving.empty());
}

TEST(StepTest, TooLittleOnItsWayKillsTheNextAtOnce) {
  Observation observation = node_at(mib(100));
  observation.workloads = {workload("/a", mib(300)), workload("/b", mib(200))};
  observation.kills = {kill("/a", mib(300))};
  EXPECT_EQ(decide(config({hard(kNode, mib(512))}), observation), "kill /b for node");
}

TEST(StepTest, ASlowKillInOneCgroupDoesNotDelayAnother) {
  const Config config = policy::config({hard(kCgroup, mib(10))});
  Observation observation;
  observation.watched = {cgroup("/a", mib(64), mib(1)), cgroup("/b", mib(64), mib(5))};
  observation.workloads = {workload("/a/x", mib(60)), workload("/b/y", mib(50)),
                           workload("/c/z", gib(5))};
  EXPECT_EQ(decide(config, observation), "kill /a/x for /a");
  observation.kills = {kill("/a/x", mib(60))};
  EXPECT_EQ(decide(config, observation), "kill /b/y for /b");
  observation.kills.push_back(kill("/b/y", mib(50)));
  EXPECT_EQ(decide(config, observation), "none for /a: release-pending");
}

TEST(StepTest, ACgroupWithoutAVictimDoesNotHoldUpTheNode) {
  const Config config = policy::config({hard(kNode, gib(1)), hard(kCgroup, mib(10))});
  Observation observation = node_at(mib(1));
  observation.watched = {cgroup("/a", mib(64), mib(1), 1)};
  observation.workloads = {with_protection(workload("/a/x", mib(60)), Protection::declared),
                           workload("/b", mib(5))};
  EXPECT_EQ(decide(config, observation), "kill /b for node");
  observation.workloads->pop_back();
  EXPECT_EQ(decide(config, observation), "none for /a: all-protected");
}

TEST(StepTest, AKillInsideACgroupIsCreditedToTheNodeAsWell) {
  const Config config = policy::config({hard(kNode, mib(100)), hard(kCgroup, mib(10))});
  Observation observation = node_at(mib(90));
  observation.watched = {cgroup("/a", mib(64), mib(1), 1)};
  observation.workloads = {workload("/a/x", mib(60)), workload("/big", gib(5))};
  EXPECT_EQ(decide(config, observation), "kill /a/x for /a");
  observation.kills = {kill("/a/x", mib(60))};
  EXPECT_EQ(decide(config, observation), "none for /a: release-pending")
      << "no other workload dies";
}

TEST(StepTest, AllocatableOnlyTouchesPods) {
  Observation observation = node_at(gib(4));
  observation.pods = cgroup("/kubepods", gib(4), mib(1));
  observation.workloads = {workload("/system.slice/big", gib(3)),
                           workload("/kubepods/pod1", mib(10))};
  EXPECT_EQ(decide(config({hard(kPods, mib(100))}), observation),
            "kill /kubepods/pod1 for /kubepods");
}

}  // namespace
}  // namespace forestall::policy::step_test
