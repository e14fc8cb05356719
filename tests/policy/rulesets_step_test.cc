// SPDX-License-Identifier: Apache-2.0
// Rulesets as a part of a step: thresholds first, one victim, protections, limits, and the state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rulesets/held_settings.h"
#include "tests/policy/rule_story.h"

namespace forestall::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

rulesets::Kill& kill_of(rulesets::Ruleset& ruleset) {
  return std::get<rulesets::Kill>(ruleset.actions.front().arguments);
}

TEST(RulesetStep, KillsWhatTheActionRanksFirstAndReportsTheReason) {
  RuleStory story({kills_in("s")});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  const Decision& decision = story.decision();
  ASSERT_EQ(decision.evictions.size(), 1U);
  EXPECT_EQ(decision.evictions[0].cause, EvictionCause::ruleset);
  EXPECT_TRUE(decision.evictions[0].at_once);
  EXPECT_EQ(decision.evictions[0].message, "The ruleset r selected it: big.");
  EXPECT_EQ(decision.driving, std::nullopt);
  ASSERT_EQ(decision.ruleset, 0U);
  const RuleReport& ruleset = decision.rulesets[0];
  EXPECT_EQ(ruleset.name, "r");
  EXPECT_EQ(ruleset.group, "big");
  ASSERT_EQ(ruleset.actions[0].ranking.size(), 3U);
  EXPECT_EQ(ruleset.actions[0].ranking[0].cgroup, "/s/b");
  EXPECT_EQ(ruleset.actions[0].ranking[0].key[0].first, "size");
  EXPECT_EQ(ruleset.actions[0].ranking[0].key[0].second, static_cast<double>(mib(300).count));
  EXPECT_THAT(story.tried(), ElementsAre("/s/b killed"));
}

TEST(RulesetStep, WithoutReadingsNothingIsEvaluatedAndTheStateStays) {
  RuleStory story({kills_in("s")});
  EXPECT_EQ(story.between(1), "none: no-data");
  EXPECT_FALSE(story.state().rules);
  EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
  const auto state = story.state().rules;
  EXPECT_EQ(story.between(2.5), "none: no-data");
  EXPECT_TRUE(story.state().rules == state);
  EXPECT_EQ(story.state().rule_kill->victim, id_of("/s/b"));
}

TEST(RulesetStep, NeedsTheWorkloadsBeforeItKills) {
  RuleStory story({kills_in("s")});
  story.now.workloads.reset();
  EXPECT_EQ(story.evaluate(1), "inspect: workloads-unread");
  EXPECT_EQ(inspection_subject(story.decision()), "");
  EXPECT_FALSE(story.state().rules) << "the same readings are evaluated again";
  story.now.workloads.emplace();
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
}

TEST(RulesetStep, ThresholdsComeFirstAndOneVictimIsEnough) {
  RuleStory story({kills_in("s")}, {hard(Signal::memory_available, mib(100))});
  story.now.node = node(mib(1000), mib(50));
  story.now.workloads = {workload("/w", mib(400))};
  EXPECT_EQ(story.evaluate(1), "kill /w for node");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
  EXPECT_EQ(story.decision().ruleset, std::nullopt);
  // While its memory returns, and after that: the ruleset did not pause.
  story.kill_began("/w", 1, KillState::in_flight);
  story.now.kills.back().remaining = mib(390);
  EXPECT_EQ(story.evaluate(2), "none for node: release-pending");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b held"));
  story.now.kills.clear();
  story.kill_began("/w", 1);
  story.now.node = node(mib(1000), mib(500));
  EXPECT_EQ(story.evaluate(3), "kill /s/b: ruleset");
}

TEST(RulesetStep, AThresholdThatOnlyReadsTheWorkloadsIsServedFirst) {
  RuleStory story({kills_in("s")}, {hard(Signal::memory_available, mib(100))});
  story.now.node = node(mib(1000), mib(50));
  story.now.workloads.reset();
  EXPECT_EQ(story.evaluate(1), "inspect for node: workloads-unread");
}

// A walk over disks may take long, and no memory rule waits for it.
TEST(RulesetStep, AShortDiskDoesNotHoldARuleset) {
  RuleStory story({kills_in("s")}, {hard(Signal::nodefs_available, mib(100))});
  story.now.filesystems.layout = FilesystemLayout::single;
  story.now.filesystems.nodefs = filesystem(mib(1000), mib(50));
  story.now.workloads = {as_pod(workload("/w", mib(400)))};
  story.now.disk_usage_read = false;
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  EXPECT_EQ(story.between(1.1), "inspect for node: disk-usage-unread")
      << "the readings still count";
}

TEST(RulesetStep, OnlyTheFirstOfTwoRulesetsKills) {
  RuleStory story({kills_in("s", "first"), kills_in("t", "second")});
  story.cgroups.push_back(rule_cgroup("/t", mib(400)));
  story.cgroups.push_back(rule_cgroup("/t/x", mib(400)));
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  EXPECT_EQ(story.decision().ruleset, 0U);
  EXPECT_THAT(story.tried(), ElementsAre("/s/b killed", "/t/x held"));
  story.kill_began("/s/b", 1);
  EXPECT_EQ(story.evaluate(2), "kill /t/x: ruleset") << "the first one pauses";
}

TEST(RulesetStep, PausesOnlyAfterAKillThatBegan) {
  RuleStory story({kills_in("s")});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  // Another part of the agent was first, or no process was left: nothing is listed.
  EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
  story.kill_began("/s/b", 2, KillState::failed);
  EXPECT_EQ(story.evaluate(3), "kill /s/a: ruleset");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b kill-failed", "/s/a killed"));
  story.kill_began("/s/a", 3);
  EXPECT_EQ(story.evaluate(4), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused);
  EXPECT_EQ(story.evaluate(17.9), "none: no-data");
  EXPECT_EQ(story.evaluate(18), "kill /s/a: ruleset");
}

TEST(RulesetStep, SparesProtectedCgroupsAndWhatIsAroundThem) {
  RuleStory story({kills_in("s")});
  story.now.workloads = {with_protection(workload("/s/b/inner", mib(10)), Protection::declared)};
  EXPECT_EQ(story.evaluate(1), "kill /s/a: ruleset");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b protected", "/s/a killed"));
  EXPECT_EQ(story.decision().considered.size(), 2U);
  EXPECT_EQ(story.decision().considered[0].exclusion, Exclusion::is_protected);
}

TEST(RulesetStep, SparesTheCgroupsOfTheAgentAndOfPid1) {
  RuleStory story({kills_in("s")});
  story.spared = {"/s/b/forestall.service", "/s/a"};
  story.cgroups.push_back(rule_cgroup("/s/d", mib(10)));
  EXPECT_EQ(story.evaluate(1), "kill /s/c: ruleset");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b protected", "/s/a protected", "/s/c killed"));
}

TEST(RulesetStep, NeverKillsTheRoot) {
  rulesets::Ruleset ruleset = kills_in("s");
  kill_of(ruleset).cgroups = {{}};
  RuleStory story({ruleset});
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/ protected"));
}

TEST(RulesetStep, SkipsEmptyCgroups) {
  RuleStory story({kills_in("s")});
  story.now.workloads = {with_processes(workload("/s/b", mib(300)), 0)};
  EXPECT_EQ(story.evaluate(1), "kill /s/a: ruleset");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b empty", "/s/a killed"));
}

TEST(RulesetStep, KillLimitHoldsARuleset) {
  RuleStory story({kills_in("s")});
  for (int i = 0; i < 8; ++i) story.kill_began("/k" + std::to_string(i), 1);
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b kill-limit"));
  EXPECT_EQ(story.evaluate(11), "kill /s/b: ruleset") << "the window is over";
}

TEST(RulesetStep, AnActionThatOnlyTriesKillsNothingAndPauses) {
  rulesets::Ruleset ruleset = kills_in("s");
  kill_of(ruleset).dry = true;
  RuleStory story({ruleset});
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/b dry-run"));
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_TRUE(story.decision().rulesets[0].paused);
}

TEST(RulesetStep, LogLinesAreInTheDecision) {
  rulesets::Ruleset ruleset = kills_in("s");
  ruleset.actions.insert(ruleset.actions.begin(), {"log", rulesets::LogAction{"batch is too big"}});
  RuleStory story({ruleset});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  EXPECT_THAT(story.decision().rulesets[0].log, ElementsAre("batch is too big"));
}

// Throttles and freezes the cgroups of `slice` in place of a kill, and reclaims from them.
rulesets::Ruleset settings_in(const std::string& slice) {
  rulesets::Ruleset ruleset = kills_in(slice);
  rulesets::Throttle throttle;
  throttle.cgroups = under(slice);
  throttle.high = {true, 50};
  throttle.duration = 5;
  rulesets::Freeze freeze;
  freeze.cgroups = under(slice);
  freeze.duration = 5;
  rulesets::ReclaimMemory reclaim;
  reclaim.cgroups = under(slice);
  reclaim.amount = {false, mib(8).count};
  ruleset.actions = {{"throttle", throttle}, {"freeze", freeze}, {"reclaim", reclaim}};
  return ruleset;
}

struct SettingStory : RuleStory {
  explicit SettingStory(bool dry_run = false) : RuleStory({settings_in("s")}, {}, dry_run) {
    for (rulesets::Cgroup& each : cgroups) {
      each.high = rulesets::kNoLimit;
      each.frozen = false;
      each.has_reclaim = true;
    }
    cgroups.resize(1);
  }
  [[nodiscard]] std::vector<RuleSetting> held() const {
    return rulesets::held_settings(*config().rules, *state().rules);
  }
};

TEST(RulesetStep, SettingsAreInTheDecisionAndHeldInTheState) {
  SettingStory story;
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/a written", "/s/a written", "/s/a written"));
  const auto& actions = story.decision().rulesets[0].actions;
  EXPECT_EQ(actions[0].attempts[0].file, "memory.high");
  EXPECT_EQ(actions[0].attempts[0].value, mib(100).count);
  EXPECT_EQ(actions[1].attempts[0].file, "cgroup.freeze");
  EXPECT_EQ(actions[1].attempts[0].value, 1);
  EXPECT_EQ(actions[2].attempts[0].file, "memory.reclaim");
  EXPECT_EQ(actions[2].attempts[0].value, mib(8).count);
  const CgroupId cgroup = id_of("/s/a");
  const MonotonicTime end = second(6);
  EXPECT_THAT(story.held(),
              ElementsAre(RuleSetting{RuleSetting::Kind::throttle, cgroup, "/s/a", mib(100), end},
                          RuleSetting{RuleSetting::Kind::freeze, cgroup, "/s/a", Bytes{0}, end}));
  story.cgroups[0].current = mib(50).count;  // no ruleset fires any more
  EXPECT_EQ(story.evaluate(8), "none: no-data");
  EXPECT_THAT(story.held(), IsEmpty()) << "the time is over";
}

TEST(RulesetStep, ACgroupThatMayNotBeKilledIsNeitherThrottledNorFrozen) {
  SettingStory story;
  story.spared = {"/s/a/agent"};
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/a protected", "/s/a protected", "/s/a written"));
  EXPECT_THAT(story.held(), IsEmpty());
}

TEST(RulesetStep, SettingsWaitForTheWorkloadsThatMayBeProtected) {
  SettingStory story;
  story.now.workloads.reset();
  EXPECT_EQ(story.evaluate(1), "inspect: workloads-unread");
  story.now.workloads.emplace();
  story.now.workloads->push_back(with_protection(workload("/s/a", mib(200)), Protection::declared));
  EXPECT_EQ(story.evaluate(2), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/a protected", "/s/a protected", "/s/a written"));
}

TEST(RulesetStep, ADryRunNamesWhatItWouldSet) {
  SettingStory story(true);
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.tried(), ElementsAre("/s/a dry-run", "/s/a dry-run", "/s/a dry-run"));
}

TEST(RulesetStep, AnUnknownReadingNeverFires) {
  RuleStory story({kills_in("s")});
  for (rulesets::Cgroup& each : story.cgroups) each.current.reset();
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  EXPECT_THAT(story.decision().rulesets, IsEmpty());
}

// A tenant with more cgroups than are read must not make a rule on absence fire.
TEST(RulesetStep, AbsenceIsUnknownWhileCgroupsAreMissing) {
  rulesets::Ruleset ruleset = kills_in("s");
  ruleset.groups[0].plugins = {{"absent", rulesets::Exists{under("gone"), true}}};
  RuleStory story({ruleset});
  story.incomplete = true;
  EXPECT_EQ(story.evaluate(1), "none: no-data");
  story.incomplete = false;
  EXPECT_EQ(story.evaluate(2), "kill /s/b: ruleset");
}

TEST(RulesetStep, AReloadKeepsTheStateOfEqualRulesets) {
  RuleStory story({kills_in("s")});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  Config other = story.config();
  other.thresholds = {hard(Signal::memory_available, mib(1))};
  other.rules = *story.config().rules;  // equal, another object
  const State kept = reconfigured(story.config(), other, story.state());
  EXPECT_TRUE(kept.rules && kept.rule_kill);
  other.rules = std::vector{kills_in("s", "renamed")};
  const State fresh = reconfigured(story.config(), other, story.state());
  EXPECT_FALSE(fresh.rules || fresh.rule_kill);
}

// Units of systemd come and go, and each change replaces the list.
TEST(RulesetStep, ARulesetKeepsItsStateWhenOthersComeAndGo) {
  RuleStory story({kills_in("s", "gone"), kills_in("s")});
  EXPECT_EQ(story.evaluate(1), "kill /s/b: ruleset");
  Config other = story.config();
  other.rules = std::vector{kills_in("t", "new"), kills_in("u", "newer"), kills_in("s")};
  const State next = reconfigured(story.config(), other, story.state());
  ASSERT_TRUE(next.rules);
  EXPECT_THAT(next.rules->rulesets, ElementsAre(Pair(3, story.state().rules->rulesets.at(2))));
  EXPECT_FALSE(next.rule_kill) << "it was of the ruleset that is gone";
  other.rules = std::vector{kills_in("t", "new"), kills_in("s", "gone")};
  const State kept = reconfigured(story.config(), other, story.state());
  ASSERT_TRUE(kept.rule_kill);
  EXPECT_EQ(kept.rule_kill->ruleset, 2U);
}

}  // namespace
}  // namespace forestall::policy
