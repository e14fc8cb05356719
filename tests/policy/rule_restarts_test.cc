// SPDX-License-Identifier: Apache-2.0
// Restarts of units by rulesets: what they spare, and what their result does to the chain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/unit_restart.h"
#include "tests/policy/rule_story.h"

namespace forestall::policy {
namespace {

using testing::ElementsAre;

// Restarts a unit, then kills in /s.
rulesets::Ruleset restarts_unit(const std::string& name, const std::string& unit) {
  rulesets::Ruleset ruleset = kills_in("s", name);
  ruleset.actions.insert(ruleset.actions.begin(), {"restart", rulesets::RestartUnit{unit}});
  return ruleset;
}

std::vector<std::string> units_tried(const RuleStory& story) {
  std::vector<std::string> units;
  for (const RuleReport& ruleset : story.decision().rulesets) {
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& each : action.attempts) {
        units.push_back(each.unit + " " + std::string(to_string(each.outcome)));
      }
    }
  }
  return units;
}

TEST(RuleRestarts, ARestartEndsTheChainAndIsTheOnlyVictim) {
  RuleStory story({restarts_unit("one", "u.service"), restarts_unit("two", "v.service")});
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service restart-requested", "v.service held"));
  EXPECT_EQ(story.evaluate(2), "none: no-data") << "the first ruleset pauses";
  EXPECT_THAT(units_tried(story), ElementsAre("v.service restart-requested"));
}

TEST(RuleRestarts, ARestartAfterAKillIsHeld) {
  RuleStory story({kills_in("s", "one"), restarts_unit("two", "v.service")});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  EXPECT_THAT(units_tried(story), ElementsAre(" killed", "v.service held"));
}

TEST(RuleRestarts, AUnitWithTheAgentIsNotRestarted) {
  for (const char* place : {"/system.slice/u.service", "/a.slice/a-b.slice/_u.service/agent"}) {
    RuleStory story({restarts_unit("r", "u.service")});
    story.spared = {place};
    EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset") << "the next action of the chain";
    EXPECT_THAT(units_tried(story), ElementsAre("u.service protected", " killed"));
  }
  RuleStory slice({restarts_unit("r", "system.slice")});
  slice.spared = {"/system.slice/forestall.service"};
  slice.evaluate(1);
  EXPECT_THAT(units_tried(slice), ElementsAre("system.slice protected", " killed"));
}

TEST(RuleRestarts, AUnitWithAProtectedWorkloadIsNotRestarted) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.now.workloads.reset();
  EXPECT_EQ(story.evaluate(1), "inspect: workloads-unread");
  story.now.workloads.emplace();
  story.now.workloads->push_back(
      with_protection(workload("/system.slice/u.service/db", mib(200)), Protection::declared));
  EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service protected", " killed"));
}

// A protected workload with a cgroup of its own could otherwise keep any unit from a restart.
TEST(RuleRestarts, ACgroupOfAWorkloadWithAUnitsNameDoesNotProtectTheUnit) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.now.workloads->push_back(with_protection(
      workload("/kubepods.slice/pod.scope/u.service", mib(200)), Protection::declared));
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service restart-requested"));
}

TEST(RuleRestarts, ADryRunNamesTheUnitThatItWouldRestart) {
  RuleStory story({restarts_unit("r", "u.service")}, {}, /*dry_run=*/true);
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service dry-run"));
  rulesets::Ruleset dry = restarts_unit("r", "u.service");
  std::get<rulesets::RestartUnit>(dry.actions[0].arguments).dry = true;
  RuleStory of_action({dry});
  EXPECT_EQ(of_action.evaluate(1), "none: no-data");
  EXPECT_THAT(units_tried(of_action), ElementsAre("u.service dry-run"));
}

void restart_is(RuleStory& story, KillState state, double requested = 1,
                const std::string& unit = "u.service") {
  story.now.kills = {unit_restart(unit, state, second(requested))};
}

TEST(RuleRestarts, AFailedRestartContinuesTheChain) {
  for (const KillState state : {KillState::failed, KillState::stuck}) {
    RuleStory story({restarts_unit("r", "u.service")});
    EXPECT_EQ(story.evaluate(1), "none: no-data");
    restart_is(story, state);
    EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
    EXPECT_THAT(units_tried(story), ElementsAre("u.service kill-failed", " killed"));
    const RuleReport& report = story.decision().rulesets[0];
    ASSERT_EQ(report.actions.size(), 2U);
    EXPECT_TRUE(report.resumed);
    EXPECT_FALSE(report.paused);
    EXPECT_EQ(report.actions[0].step, ChainStep::proceed);
  }
}

TEST(RuleRestarts, ARestartThatIsDoneEndsTheChain) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.evaluate(1);
  restart_is(story, KillState::in_flight);
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused);
  restart_is(story, KillState::released);
  EXPECT_EQ(story.evaluate(3), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused) << "until 31";
}

// As with recordings of agents that list no restarts.
TEST(RuleRestarts, ARestartThatIsNotListedEndsTheChain) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.evaluate(1);
  restart_is(story, KillState::failed, 0.5);  // an earlier one
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  story.now.kills.clear();
  EXPECT_EQ(story.evaluate(30.9), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused);
  story.evaluate(31);
  EXPECT_THAT(units_tried(story), ElementsAre("u.service restart-requested"));
}

// A restart may take a minute, and the pressure may be over.
TEST(RuleRestarts, AFailedRestartEndsTheChainIfNoGroupFires) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.evaluate(1);
  const auto before = story.cgroups;
  story.cgroups = {rule_cgroup("/s/a", mib(50))};
  restart_is(story, KillState::failed);
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service kill-failed"));
  EXPECT_EQ(story.decision().rulesets[0].actions.at(0).step, ChainStep::stop);
  story.cgroups = before;
  EXPECT_EQ(story.evaluate(3), "kill /s/b: ruleset") << "there is no pause";
}

// Else a unit that cannot be restarted would be requested every second.
TEST(RuleRestarts, AUnitWhoseRestartFailedGivesWayToTheNextAction) {
  rulesets::Ruleset logs = restarts_unit("r", "u.service");
  logs.actions[1] = {"log", rulesets::LogAction{"x"}};
  RuleStory story({logs});
  story.evaluate(1);
  restart_is(story, KillState::failed);
  for (const double at : {2.0, 3.0, 4.0}) {
    EXPECT_EQ(story.evaluate(at), "none: no-data");
    EXPECT_THAT(units_tried(story), ElementsAre("u.service kill-failed"));
    EXPECT_THAT(story.decision().rulesets[0].log, ElementsAre("x"));
  }
  story.now.kills.clear();
  story.evaluate(5);
  EXPECT_THAT(units_tried(story), ElementsAre("u.service restart-requested"));
}

// One crossing, one victim: the memory of the unit returns when it stops.
TEST(RuleRestarts, AKillWaitsForARestartForALimitedTime) {
  RuleStory story({restarts_unit("one", "u.service"), kills_in("s", "two")});
  story.evaluate(1);
  EXPECT_THAT(units_tried(story), ElementsAre("u.service restart-requested", " held"));
  restart_is(story, KillState::in_flight);
  for (const double at : {2.0, 15.9}) {
    EXPECT_EQ(story.evaluate(at), "none: no-data");
    EXPECT_THAT(units_tried(story), ElementsAre(" held"));
  }
  EXPECT_EQ(story.evaluate(16), "kill /s/b: ruleset");
  RuleStory done({restarts_unit("one", "u.service"), kills_in("s", "two")});
  done.evaluate(1);
  restart_is(done, KillState::released);
  EXPECT_EQ(done.evaluate(2), "kill /s/b: ruleset");
}

TEST(RuleRestarts, AnotherRestartWaitsToo) {
  RuleStory story({restarts_unit("one", "u.service"), restarts_unit("two", "v.service")});
  story.evaluate(1);
  restart_is(story, KillState::in_flight);
  story.evaluate(2);
  EXPECT_THAT(units_tried(story), ElementsAre("v.service held"));
}

TEST(RuleRestarts, AThresholdDoesNotWaitForARestart) {
  RuleStory story({restarts_unit("r", "u.service")}, {hard(Signal::memory_available, mib(100))});
  story.evaluate(1);
  restart_is(story, KillState::in_flight);
  story.now.node = node(mib(1000), mib(50));
  story.now.workloads = {workload("/w", mib(400))};
  EXPECT_EQ(story.evaluate(2), "kill /w for node");
}

// systemd may need minutes for a unit that does not stop.
TEST(RuleRestarts, ARestartThatOutlastsThePauseCountsAsFailed) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.evaluate(1);
  restart_is(story, KillState::in_flight);
  EXPECT_EQ(story.evaluate(30.9), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused);
  EXPECT_EQ(story.evaluate(31), "kill /s/b: ruleset");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service kill-failed", " killed"));
}

TEST(RuleRestarts, WithoutAPauseTheChainWaitsNeverthelessForTheResult) {
  rulesets::Ruleset ruleset = restarts_unit("r", "u.service");
  ruleset.post_action_delay = 0;
  std::get<rulesets::RestartUnit>(ruleset.actions[0].arguments).post_action_delay = 0;
  RuleStory story({ruleset});
  story.evaluate(1);
  restart_is(story, KillState::in_flight);
  EXPECT_EQ(story.evaluate(15.9), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused);
  EXPECT_EQ(story.evaluate(16), "kill /s/b: ruleset");
}

std::vector<KillProgress> eight_restarts() {
  std::vector<KillProgress> restarts;
  for (int i = 0; i < 8; ++i) {
    const std::string unit = std::to_string(i) + ".service";
    restarts.push_back(unit_restart(unit, KillState::released, second(1)));
  }
  return restarts;
}

TEST(RuleRestarts, KillLimitCountsRestarts) {
  RuleStory kills({kills_in("s")});
  kills.now.kills = eight_restarts();
  EXPECT_EQ(kills.evaluate(2), "none: no-data");
  EXPECT_THAT(units_tried(kills), ElementsAre(" kill-limit"));
  kills.now.kills.front().state = KillState::failed;  // systemd did not begin it
  EXPECT_EQ(kills.evaluate(3), "kill /s/b: ruleset");

  RuleStory threshold({kills_in("s")}, {hard(Signal::memory_available, mib(100))});
  threshold.now.kills = eight_restarts();
  threshold.now.node = node(mib(1000), mib(50));
  threshold.now.workloads = {workload("/w", mib(400))};
  EXPECT_EQ(threshold.evaluate(2), "none for node: kill-limit-reached");
}

TEST(RuleRestarts, KillLimitHoldsARestart) {
  RuleStory story({restarts_unit("r", "u.service")});
  story.now.kills = eight_restarts();
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(units_tried(story), ElementsAre("u.service kill-limit"));
  story.evaluate(11);
  EXPECT_THAT(units_tried(story), ElementsAre("u.service restart-requested")) << "its window";
}

TEST(RuleRestarts, ARestartDoesNotHideAKillThatFreedLittle) {
  RuleStory story({}, {hard(Signal::memory_available, mib(100))});
  story.now.node = node(mib(1000), mib(50));
  story.now.workloads = {workload("/w", mib(400))};
  KillProgress short_kill = kill("/x", Bytes{0}, KillState::released);
  short_kill.started = second(1);
  short_kill.expected = mib(200);
  story.now.kills = {short_kill, unit_restart("u.service", KillState::released, second(2))};
  EXPECT_EQ(story.evaluate(3), "none for node: kills-freed-little");
}

}  // namespace
}  // namespace forestall::policy
