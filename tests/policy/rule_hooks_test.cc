// SPDX-License-Identifier: Apache-2.0
// Prekill hooks of rulesets: when one starts, how long the kill waits, and what it does then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/policy/rule_story.h"

namespace forestall::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

rulesets::PrekillHook runs_program(const std::string& name,
                                   rulesets::CgroupPatterns cgroups = {{}}) {
  rulesets::PrekillHook hook;
  hook.name = name;
  hook.cgroups = std::move(cgroups);
  hook.program = "/usr/local/sbin/" + name;
  return hook;
}

// Kills in /s, after a hook of at most 5 s.
struct HookStory : RuleStory {
  explicit HookStory(std::vector<rulesets::PrekillHook> hooks = {runs_program("dump")},
                     std::vector<Threshold> thresholds = {}, bool dry_run = false,
                     const rulesets::Ruleset& ruleset = kills_in("s"))
      : RuleStory({ruleset}, std::move(thresholds), dry_run, std::move(hooks)) {}

  // The hook of the kill that waits is in this state.
  void hook_is(HookState state) {
    const RuleAttempt& waits = decision().rulesets.at(0).actions.at(0).attempts.back();
    now.hooks = {
        {.run = waits.hook_run, .hook = waits.hook, .cgroup = waits.cgroup, .state = state}};
  }
};

TEST(RuleHooks, AKillWaitsForItsHook) {
  HookStory story;
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b hook-requested"));
  const RuleAttempt& request = story.decision().rulesets[0].actions[0].attempts[0];
  EXPECT_EQ(request.hook, "dump");
  EXPECT_EQ(request.hook_run, 1U);
  EXPECT_EQ(request.hook_until, second(6));
  story.hook_is(HookState::running);
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b hook-pending"));
  EXPECT_EQ(story.decision().rulesets[0].actions[0].attempts[0].hook_until, second(6));
  story.hook_is(HookState::succeeded);
  EXPECT_EQ(story.evaluate(3), "kill /s/b: ruleset");
}

TEST(RuleHooks, TheKillDoesNotWaitBeyondTheTimeOfTheChain) {
  HookStory story;
  story.evaluate(1);
  story.hook_is(HookState::running);
  EXPECT_EQ(story.evaluate(6), "none: no-data");
  story.hook_is(HookState::running);
  EXPECT_EQ(story.evaluate(6.01), "kill /s/b: ruleset");
}

rulesets::Ruleset kills_as_oomd() {
  auto ruleset = kills_in("s");
  std::get<rulesets::Kill>(ruleset.actions[0].arguments).preference =
      rulesets::PreferenceSource::oomd;
  return ruleset;
}

TEST(RuleHooks, IfNoGroupFiresAtTheEndThereIsNeitherAKillNorAPause) {
  for (const HookState state : {HookState::succeeded, HookState::timed_out, HookState::refused}) {
    HookStory story;
    story.evaluate(1);
    story.hook_is(state);
    story.cgroups = {rule_cgroup("/s/a", mib(20)), rule_cgroup("/s/b", mib(30))};
    EXPECT_EQ(story.evaluate(2), "none: no-data");
    EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
    EXPECT_THAT(story.decision().rulesets[0].log,
                ElementsAre("No group of detectors fires after the prekill hook dump, so no kill "
                            "is needed: /s/b"));
    story.now.hooks.clear();
    story.cgroups = {rule_cgroup("/s/a", mib(200)), rule_cgroup("/s/b", mib(30))};
    story.evaluate(3);
    EXPECT_THAT(story.tried(), ElementsAre("/s/a hook-requested"));
  }
}

TEST(RuleHooks, IfNoGroupFiresAtTheEndNoFurtherActionRuns) {
  auto ruleset = kills_in("s");
  ruleset.actions.push_back(ruleset.actions[0]);
  HookStory story({runs_program("dump", {{{"s", "b"}}})}, {}, false, ruleset);
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  for (rulesets::Cgroup& each : story.cgroups) each.current = mib(20).count;
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_EQ(story.decision().rulesets[0].actions.size(), 1U);
}

TEST(RuleHooks, AKillWithPreferenceOomdComesEvenIfNoGroupFiresAnyMore) {
  HookStory story({runs_program("dump")}, {}, false, kills_as_oomd());
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  story.cgroups = {rule_cgroup("/s/a", mib(20)), rule_cgroup("/s/b", mib(30))};
  EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
  EXPECT_EQ(story.decision().evictions[0].message, "The ruleset r selected it: big.");
}

TEST(RuleHooks, WhileAGroupFiresTheVictimThatWaitedDiesNotTheOneThatRanksFirstNow) {
  HookStory story;
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  story.cgroups = {rule_cgroup("/s/a", mib(400)), rule_cgroup("/s/b", mib(30))};
  EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
}

TEST(RuleHooks, ANewCgroupOfTheSameNameIsNotKilled) {
  HookStory story;
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  story.cgroups = {rule_cgroup("/s/b", mib(20))};
  story.cgroups[0].id += 1000;
  EXPECT_EQ(story.evaluate(2), "none: no-data");
}

TEST(RuleHooks, AHookThatFailedOrDidNotStartDoesNotSaveTheVictim) {
  for (const HookState state : {HookState::failed, HookState::timed_out, HookState::refused}) {
    HookStory story;
    story.evaluate(1);
    story.hook_is(state);
    EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset") << to_string(state);
  }
}

// Below, the wait is void: nothing else dies on a decision of the past.

TEST(RuleHooks, AVictimThatIsGoneCostsNeitherTheNextCandidateNorTheNextAction) {
  auto ruleset = kills_in("s");
  ruleset.actions.push_back(ruleset.actions[0]);
  HookStory story({runs_program("dump")}, {}, false, ruleset);
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  story.cgroups = {rule_cgroup("/s/a", mib(20))};
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
  EXPECT_EQ(story.decision().rulesets[0].actions.size(), 1U);
}

TEST(RuleHooks, AVictimWithoutProcessesCostsNoOther) {
  HookStory story;
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  story.cgroups[1].populated = false;
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
}

TEST(RuleHooks, AVictimThatBecameProtectedCostsNoOtherUntilTheDetectorsDecideAgain) {
  HookStory story({runs_program("dump", {{{"s", "b"}}})});
  story.evaluate(1);
  story.hook_is(HookState::succeeded);
  story.now.workloads->push_back(with_protection(workload("/s/b", mib(300)), Protection::declared));
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b protected"));
  EXPECT_EQ(story.evaluate(3), "kill /s/a: ruleset");
}

TEST(RuleHooks, AKillMeanwhileIsTheOnlyOneForItsCrossing) {
  for (const HookState state : {HookState::running, HookState::succeeded}) {
    HookStory story;
    story.evaluate(1);
    story.hook_is(state);
    story.kill_began("/w", 1.5, KillState::released);
    EXPECT_EQ(story.evaluate(2), "none: no-data");
    EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
    EXPECT_FALSE(story.decision().rulesets[0].paused);
  }
}

TEST(RuleHooks, AHookWhoseKillDidNotFollowDoesNotRunTwiceWithinAMinute) {
  HookStory story;
  story.evaluate(1);
  story.hook_is(HookState::running);
  story.kill_began("/w", 1.5, KillState::released);
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
  // It still runs.
  EXPECT_EQ(story.evaluate(3), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
  story.now.hooks[0].state = HookState::succeeded;
  EXPECT_EQ(story.evaluate(4), "kill /s/b: ruleset");
}

TEST(RuleHooks, AHookWhoseKillDidNotFollowRunsAgainAfterAMinuteAndForANewCgroup) {
  for (const bool is_new : {false, true}) {
    HookStory story;
    story.evaluate(1);
    story.hook_is(HookState::succeeded);
    story.kill_began("/w", 1.5, KillState::released);
    story.evaluate(2);
    if (is_new) story.cgroups[1].id += 1000;
    EXPECT_EQ(story.evaluate(is_new ? 3 : 62.5), "none: no-data");
    EXPECT_THAT(story.tried(), ElementsAre("/s/b hook-requested"));
  }
}

TEST(RuleHooks, TheKillOfOneRulesetWaitsAtATime) {
  RuleStory story({kills_in("s", "one"), kills_in("s", "two")}, {}, false, {runs_program("dump")});
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b hook-requested", "/s/b held"));
  story.now.hooks = {{.run = 1,
                      .hook = "dump",
                      .cgroup = "/s/b",
                      .state = HookState::running,
                      .started = second(1)}};
  story.evaluate(2);
  EXPECT_THAT(story.tried(), ElementsAre("/s/b hook-pending", "/s/b held"));
}

TEST(RuleHooks, ARunThatAReloadDroppedIsVoid) {
  HookStory story;
  story.evaluate(1);
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
}

TEST(RuleHooks, NoHookStartsForAVictimThatMayNotBeKilled) {
  HookStory story;
  story.spared = {"/s/b/agent"};
  story.evaluate(1);
  EXPECT_THAT(story.tried(), ElementsAre("/s/b protected", "/s/a hook-requested"));
}

TEST(RuleHooks, NoHookStartsWhileAnotherVictimIsBeingReleased) {
  HookStory story;
  story.kill_began("/s/c", 0.5, KillState::in_flight);
  story.evaluate(1);
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
}

TEST(RuleHooks, WorkloadsAreReadBeforeAHookStarts) {
  HookStory story;
  story.now.workloads.reset();
  EXPECT_EQ(story.evaluate(1), "inspect: workloads-unread");
  story.now.workloads.emplace();
  story.evaluate(1);
  EXPECT_EQ(story.decision().rulesets[0].actions[0].attempts[0].hook_run, 1U);
}

TEST(RuleHooks, AKillForAThresholdDoesNotWaitAndHoldsTheOneThatDid) {
  HookStory story({runs_program("dump")}, {hard(Signal::memory_available, mib(600))});
  story.now.workloads->push_back(workload("/w", mib(300)));
  EXPECT_EQ(story.evaluate(1), "kill /w for node");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
}

TEST(RuleHooks, ADryRunRunsNoHook) {
  HookStory story({runs_program("dump")}, {}, /*dry_run=*/true);
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  auto ruleset = kills_in("s");
  std::get<rulesets::Kill>(ruleset.actions[0].arguments).dry = true;
  HookStory of_action({runs_program("dump")}, {}, false, ruleset);
  of_action.evaluate(1);
  EXPECT_THAT(of_action.tried(), ElementsAre("/s/b dry-run"));
}

TEST(RuleHooks, TheFirstHookThatMatchesRuns) {
  HookStory story({runs_program("elsewhere", {{{"t"}}}), runs_program("first", {{{"s", "*"}}}),
                   runs_program("second")});
  story.evaluate(1);
  EXPECT_EQ(story.decision().rulesets[0].actions[0].attempts[0].hook, "first");
}

TEST(RuleHooks, AHookThatOnlyLogsDoesNotDelay) {
  rulesets::PrekillHook hook;
  hook.name = "note";
  hook.cgroups = {{}};
  hook.log = "about to kill";
  HookStory story({hook});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  EXPECT_THAT(story.decision().rulesets[0].log, ElementsAre("about to kill: /s/b"));
}

TEST(RuleHooks, ATimeOfZeroRunsNone) {
  auto ruleset = kills_in("s");
  ruleset.prekill_hook_timeout = 0;
  HookStory story({runs_program("dump")}, {}, false, ruleset);
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
}

}  // namespace
}  // namespace forestall::policy
