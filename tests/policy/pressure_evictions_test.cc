// SPDX-License-Identifier: Apache-2.0
// Pods of containers that stay under memory pressure: which one is evicted, how, and which are not.
#include "policy/pressure_evictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policy/step.h"
#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::Pair;

constexpr MonotonicTime kPressedAt(1h);

PressedContainer pressed(const std::string& pod, PressureStage stage = PressureStage::evict) {
  return {"default/" + pod + "/app",
          id_of("/kubepods/" + pod),
          stage,
          PressureSignal::high,
          12.04,
          10,
          65s,
          kPressedAt};
}

Observation pressed_node(std::vector<PressedContainer> containers) {
  Observation observation;
  observation.at = kPressedAt + 1s;
  observation.pressed = std::move(containers);
  observation.workloads.emplace();
  for (const std::string name : {"a", "b", "calm"}) {
    Pod made = pod(name, {container("app")});
    made.termination_grace = 20s;
    observation.workloads->push_back(sample_of(made, mib(10)));
  }
  return observation;
}

Config enforcing() {
  Config config;
  config.container_pressure.enforces = true;
  config.container_pressure.rule.stages.insert(PressureStage::evict);
  config.container_pressure.rule.stages.insert(PressureStage::kill);
  return config;
}

Decision decide(const Observation& observation, const Config& config = enforcing()) {
  return step(config, {}, observation).decision;
}

std::string victim_of(const Decision& decision) {
  const auto victim = decision.victim();
  return victim ? decision.considered[*victim].sample.workload.name : "";
}

TEST(PressureEvictions, TheFirstPodIsEvictedWithTheGraceOfASoftEviction) {
  Config config = enforcing();
  config.max_pod_grace_seconds = 30;
  const Decision decision = decide(pressed_node({pressed("b"), pressed("a")}), config);
  EXPECT_EQ(decision.action, Action::kill);
  EXPECT_EQ(decision.reason, Reason::container_pressure);
  ASSERT_EQ(decision.evictions.size(), 1U);
  EXPECT_EQ(victim_of(decision), "b");
  const Eviction& eviction = decision.evictions[0];
  EXPECT_EQ(eviction.cause, EvictionCause::high_pressure);
  EXPECT_EQ(eviction.metric_signal, "memory.high.pressure");
  EXPECT_EQ(eviction.grace, 20s);
  EXPECT_FALSE(eviction.at_once);
  EXPECT_TRUE(eviction.disruption_target);
  EXPECT_EQ(eviction.message,
            "Container default/b/app stayed under memory pressure for 1m5s: 12.0 \"high\" events a "
            "second, threshold 10. ");
  EXPECT_THAT(eviction.annotations, ElementsAre(Pair("offending_containers", "app")));
}

TEST(PressureEvictions, TheStageKillGrantsNoGrace) {
  PressedContainer container = pressed("a", PressureStage::kill);
  container.signal = PressureSignal::psi;
  const Decision decision = decide(pressed_node({container}));
  ASSERT_EQ(decision.evictions.size(), 1U);
  EXPECT_TRUE(decision.evictions[0].at_once);
  EXPECT_EQ(decision.evictions[0].cause, EvictionCause::psi_pressure);
  EXPECT_THAT(decision.evictions[0].message,
              testing::HasSubstr("its tasks waited 12.0 % of the time, threshold 10 %"));
}

TEST(PressureEvictions, NeedsTheWorkloads) {
  Observation observation = pressed_node({pressed("a")});
  observation.workloads.reset();
  const Decision decision = decide(observation);
  EXPECT_EQ(decision.action, Action::inspect);
  EXPECT_EQ(decision.reason, Reason::workloads_unread);
  EXPECT_EQ(inspection_subject(decision), "") << "all of them";
}

TEST(PressureEvictions, AnOldReadingCausesNothing) {
  Observation observation = pressed_node({pressed("a")});
  observation.at = kPressedAt + 5s;
  EXPECT_EQ(victim_of(decide(observation)), "a");
  observation.at += Duration{1};
  EXPECT_EQ(decide(observation).action, Action::none);
  observation.workloads.reset();
  EXPECT_EQ(decide(observation).action, Action::none) << "not even a reading";
}

TEST(PressureEvictions, AContainerWithoutAWorkloadCausesNothing) {
  const Decision decision = decide(pressed_node({pressed("unlisted")}));
  EXPECT_EQ(decision.action, Action::none);
}

TEST(PressureEvictions, WhatIsProtectedOrDyingStays) {
  Observation observation = pressed_node({pressed("a"), pressed("b")});
  observation.workloads->at(0).workload.protection = Protection::declared;
  EXPECT_EQ(victim_of(decide(observation)), "b");
  observation.kills = {{id_of("/kubepods/b"), "/kubepods/b", KillState::in_flight, kPressedAt,
                        mib(10), std::nullopt}};
  EXPECT_EQ(decide(observation).action, Action::none);
}

TEST(PressureEvictions, OnlyTheStageKillEndsAGraceThatRuns) {
  Observation observation = pressed_node({pressed("a")});
  observation.kills = {{id_of("/kubepods/a"), "/kubepods/a", KillState::terminating, kPressedAt,
                        mib(10), kPressedAt + 20s}};
  EXPECT_EQ(decide(observation).action, Action::none);
  observation.pressed[0].stage = PressureStage::kill;
  EXPECT_EQ(victim_of(decide(observation)), "a");
}

TEST(PressureEvictions, TheKillLimitHoldsFurtherOnesBack) {
  Config config = enforcing();
  config.kill_limit.node = 1;
  config.kill_limit.window = 1min;
  Observation observation = pressed_node({pressed("a")});
  observation.kills = {{id_of("/kubepods/z"), "/kubepods/z", KillState::released, kPressedAt - 5s,
                        Bytes{}, std::nullopt}};
  EXPECT_EQ(decide(observation, config).action, Action::none);
  observation.kills[0].started = kPressedAt - 2min;
  EXPECT_EQ(victim_of(decide(observation, config)), "a");
}

TEST(PressureEvictions, AGraceThatRunsCountsForTheKillLimit) {
  Config config = enforcing();
  config.kill_limit.node = 1;
  config.kill_limit.window = 10s;
  Observation observation = pressed_node({pressed("a")});
  observation.kills = {{id_of("/kubepods/z"), "/kubepods/z", KillState::terminating,
                        kPressedAt - 20s, mib(1), kPressedAt + 10s}};
  EXPECT_EQ(decide(observation, config).action, Action::none);
  observation.kills[0].state = KillState::in_flight;
  EXPECT_EQ(decide(observation, config).action, Action::none) << "its grace is over";
  observation.kills[0].state = KillState::released;
  EXPECT_EQ(victim_of(decide(observation, config)), "a");
}

// A cgroup that the configuration names outlives its processes.
TEST(PressureEvictions, ProcessesAfterAKillAreNotKilledForThoseBefore) {
  Observation observation = pressed_node({pressed("a", PressureStage::kill)});
  observation.kills = {{id_of("/kubepods/a"), "/kubepods/a", KillState::released, kPressedAt - 64s,
                        Bytes{}, std::nullopt}};
  EXPECT_EQ(decide(observation).action, Action::none);
  observation.kills[0].started = kPressedAt - 65s;
  EXPECT_EQ(victim_of(decide(observation)), "a");
}

std::vector<PressureRefusal> refusals(const Observation& observation,
                                      const Config& config = enforcing()) {
  return pressure_refusals(config, observation, decide(observation, config));
}

TEST(PressureEvictions, ARefusalHasItsReason) {
  Observation observation = pressed_node({pressed("a"), pressed("b"), pressed("unlisted")});
  observation.workloads->at(0).workload.protection = Protection::declared;
  EXPECT_THAT(refusals(observation),
              ElementsAre(PressureRefusal{"default/a/app", "not evicted: it is protected"},
                          PressureRefusal{"default/unlisted/app",
                                          "not evicted: it is no workload of the agent"}))
      << "b is the victim";
  Config config = enforcing();
  config.kill_limit.node = 1;
  observation = pressed_node({pressed("a")});
  observation.kills = {{id_of("/kubepods/z"), "/kubepods/z", KillState::released, kPressedAt,
                        Bytes{}, std::nullopt}};
  EXPECT_THAT(refusals(observation, config),
              ElementsAre(PressureRefusal{"default/a/app", "not evicted: killLimit is reached"}));
}

TEST(PressureEvictions, WhatMayStillBeEvictedIsNotRefused) {
  Observation observation = pressed_node({pressed("a"), pressed("b")});
  EXPECT_THAT(refusals(observation), testing::IsEmpty()) << "b waits for its turn";
  observation.workloads->at(1).workload.protection = Protection::declared;
  observation.at += 5s;
  EXPECT_THAT(refusals(observation), testing::IsEmpty()) << "the readings are too old";
  observation.at -= 5s;
  observation.workloads.reset();
  EXPECT_THAT(refusals(observation), testing::IsEmpty()) << "the workloads are unknown";
}

TEST(PressureEvictions, OnlyTheConfigurationInForceCounts) {
  const Observation observation = pressed_node({pressed("a")});
  Config config = enforcing();
  config.container_pressure.rule.stages = {};
  config.container_pressure.rule.stages.insert(PressureStage::kill);
  EXPECT_EQ(decide(observation, config).action, Action::none);
  config = enforcing();
  config.container_pressure.enforces = false;
  EXPECT_EQ(decide(observation, config).action, Action::none);
}

// One crossing, one victim: the node's own thresholds decide first.
TEST(PressureEvictions, AThresholdOfTheNodeComesFirst) {
  Config config = enforcing();
  Threshold threshold;
  threshold.limit = Limit::bytes(mib(100));
  config.thresholds = {threshold};
  Observation observation = pressed_node({pressed("calm")});
  observation.node.capacity = mib(1000);
  observation.node.usage = mib(950);
  observation.node.inactive_file = Bytes{};
  observation.workloads->at(0).usage = mib(500);
  const Decision decision = decide(observation, config);
  EXPECT_EQ(decision.reason, Reason::threshold_met);
  EXPECT_EQ(victim_of(decision), "a");
  observation.kills = {{id_of("/kubepods/z"), "/kubepods/z", KillState::in_flight, kPressedAt,
                        mib(200), std::nullopt}};
  EXPECT_EQ(decide(observation, config).action, Action::none) << "it waits";
}

}  // namespace
}  // namespace forestall::policy
