// SPDX-License-Identifier: Apache-2.0
// A replay with other rulesets decides only what the recorded agent has read.
#include "replay/rule_coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/comparison_text.h"
#include "replay/recorded_run.h"
#include "support/temp_tree.h"
#include "tests/policy/world.h"

namespace forestall::test {
namespace {

using replay::covers;
using replay::RuleCoverage;
using rulesets::Item;
using rulesets::Ruleset;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

using Observed = SharedValue<rulesets::RuleObservation>;

rulesets::CgroupPatterns cgroups(const std::string& name) {
  return {{{name}}};
}

// Logs, or kills children, if the pressure of /a is above the threshold.
Ruleset pressure_rule(double threshold, bool kills = false) {
  rulesets::PressureOver pressure;
  pressure.cgroups = cgroups("a");
  pressure.threshold = threshold;
  Ruleset ruleset;
  ruleset.name = "r";
  ruleset.groups = {{"g", {{"pressure", pressure}}}};
  rulesets::Kill kill;
  kill.by = rulesets::KillBy::pressure;
  kill.cgroups = {{{"a", "*"}}};
  if (kills) {
    ruleset.actions = {{"kill", kill}};
  } else {
    ruleset.actions = {{"log", rulesets::LogAction{"high"}}};
  }
  return ruleset;
}

// The pressure of /a, or nothing if all rulesets are deferred.
rulesets::RuleObservation observed(MonotonicTime at, float pressure,
                                   std::vector<std::string> deferred = {}) {
  rulesets::RuleObservation observation;
  observation.time = at.time_since_epoch();
  observation.deferred = std::move(deferred);
  if (!observation.deferred.empty()) return observation;
  observation.host.mem_total = 1'000'000;
  for (const char* path : {"/", "/a"}) {
    rulesets::Cgroup& cgroup = observation.cgroups.emplace_back();
    cgroup.path = path;
    cgroup.memory_pressure.emplace().full = rulesets::PressureLine{pressure, 0, 0, std::nullopt};
  }
  return observation;
}

class RuleCoverageTest : public testing::Test {
 protected:
  void use(const std::vector<Ruleset>& recorded, const std::vector<Ruleset>& replayed) {
    coverage_.use(recorded, replayed);
  }
  // The rulesets that are not decided.
  std::vector<std::string> take(double second, const rulesets::RuleObservation& observation) {
    Observed shared(observation);
    coverage_.take(policy::second(second), shared);
    return shared->deferred;
  }
  [[nodiscard]] Duration missing(const std::string& name) const {
    const auto found = coverage_.missing().find(name);
    return found != coverage_.missing().end() ? found->second.time : -1ns;
  }

  RuleCoverage coverage_;
  const rulesets::RuleObservation read_ = observed(policy::second(1), 10);
  const rulesets::RuleObservation deferred_ = observed(policy::second(1), 0, {"r"});
};

TEST_F(RuleCoverageTest, AnEqualRulesetStaysDeferred) {
  use({pressure_rule(60)}, {pressure_rule(60)});
  EXPECT_THAT(take(1, deferred_), ElementsAre("r"));
  EXPECT_THAT(take(2, read_), IsEmpty());
  EXPECT_THAT(coverage_.missing(), IsEmpty());
}

TEST_F(RuleCoverageTest, AnotherRulesetIsDecidedOnWhatWasRead) {
  use({pressure_rule(60)}, {pressure_rule(5)});
  EXPECT_THAT(take(1, read_), IsEmpty());
  EXPECT_THAT(take(2, deferred_), ElementsAre("r"));
  EXPECT_THAT(take(4, read_), IsEmpty());
  EXPECT_THAT(take(5, deferred_), ElementsAre("r"));
  coverage_.finish(policy::second(9));
  EXPECT_EQ(missing("r"), 2s + 4s);
  EXPECT_EQ(coverage_.missing().at("r").readings, 2U);
}

TEST_F(RuleCoverageTest, ARulesetOfAnotherNameIsNotDeferredByTheRecordedOne) {
  Ruleset renamed = pressure_rule(60);
  renamed.name = "s";
  use({pressure_rule(60), renamed}, {renamed});
  rulesets::RuleObservation one = read_;
  one.deferred = {"r"};
  EXPECT_THAT(take(1, one), IsEmpty());
  EXPECT_THAT(coverage_.missing(), IsEmpty());
}

TEST_F(RuleCoverageTest, CandidatesThatWereNotReadAreNoCandidatesThatDoNotExist) {
  // Its memory is longer than the lead of its gate, so its detectors are always read.
  const auto long_memory = [](double threshold) {
    Ruleset ruleset = pressure_rule(threshold, /*kills=*/true);
    ruleset.groups[0].plugins.push_back({"reclaim", rulesets::MemoryReclaim{cgroups("a"), 100}});
    return ruleset;
  };
  use({long_memory(60)}, {long_memory(50)});
  EXPECT_THAT(take(1, observed(policy::second(1), 10)), ElementsAre("r")) << "the gate is shut";
  EXPECT_THAT(take(2, observed(policy::second(2), 70)), ElementsAre("r")) << "or was just before";
  EXPECT_THAT(take(3, observed(policy::second(3), 70)), IsEmpty());
  EXPECT_THAT(take(4, observed(policy::second(4), 0)), IsEmpty()) << "read for a minute";
  EXPECT_THAT(take(61, observed(policy::second(61), 0)), ElementsAre("r"));
  use({long_memory(60)}, {long_memory(60)});
  EXPECT_THAT(take(62, observed(policy::second(62), 10)), IsEmpty()) << "no group of it can fire";
  use({long_memory(60)}, {pressure_rule(5)});
  EXPECT_THAT(take(63, observed(policy::second(63), 10)), IsEmpty()) << "it has no candidates";
}

TEST_F(RuleCoverageTest, RulesetsOfOneNameAreDecidedTogether) {
  use({pressure_rule(60)}, {pressure_rule(60), pressure_rule(5)});
  EXPECT_THAT(take(1, deferred_), ElementsAre("r"));
  EXPECT_EQ(coverage_.missing().at("r").readings, 1U);
}

TEST_F(RuleCoverageTest, WithoutRecordedRulesetsNothingIsDecided) {
  coverage_.use({}, std::vector<Ruleset>{pressure_rule(5)});
  Observed none;
  coverage_.take(policy::second(1), none);
  coverage_.finish(policy::second(3));
  EXPECT_EQ(missing("r"), 2s);
  coverage_.use(std::vector<Ruleset>{pressure_rule(60)}, std::vector<Ruleset>{pressure_rule(5)});
  coverage_.take(policy::second(4), none);
  EXPECT_EQ(coverage_.missing().at("r").readings, 1U) << "no reading was due";
}

TEST_F(RuleCoverageTest, ARulesetWithoutCgroupsNeedsTheHost) {
  Ruleset host = pressure_rule(60);
  host.groups = {{"g", {{"available", rulesets::AvailableBelow{}}}}};
  use({pressure_rule(60)}, {host});
  EXPECT_THAT(take(1, read_), IsEmpty());
  EXPECT_THAT(take(2, deferred_), ElementsAre("r"));
}

TEST(RuleNeeds, APatternCoversTheCgroupsItMatches) {
  const rulesets::RuleNeed literal{{{{"a", "b"}}}, Item::usage, false};
  const auto covered_by = [&](const rulesets::CgroupPattern& pattern, bool descend) {
    return covers({{{pattern}, Item::usage, descend}}, literal);
  };
  EXPECT_TRUE(covered_by({{"a", "b"}}, false));
  EXPECT_TRUE(covered_by({{"a", "*"}}, false));
  EXPECT_TRUE(covered_by({{"a"}}, true));
  EXPECT_FALSE(covered_by({{"a"}}, false));
  EXPECT_FALSE(covered_by({{"a", "b", "c"}}, true));
  EXPECT_FALSE(covered_by({{"a", "c*"}}, false));
  EXPECT_FALSE(
      covers({{{{{"a", "b"}}}, Item::usage, false}}, {{{{"a", "*"}}}, Item::usage, false}));
}

TEST(RuleNeeds, AllItemsAreNeeded) {
  const rulesets::RuleNeed need{cgroups("a"), rulesets::Items(Item::usage) | Item::stat, false};
  const rulesets::RuleNeed usage{cgroups("a"), Item::usage, false};
  const rulesets::RuleNeed stat{cgroups("*"), Item::stat, false};
  EXPECT_FALSE(covers({usage}, need));
  EXPECT_TRUE(covers({usage, stat}, need));
  EXPECT_FALSE(covers({}, {cgroups("a"), {}, false})) << "whether it exists was not read";
  EXPECT_FALSE(covers({usage}, {cgroups("a"), Item::usage, true})) << "its descendants";
}

// The recorded plan deferred the ruleset for two of four seconds.
TEST_F(RuleCoverageTest, AReplayPrintsWhatItCouldNotDecide) {
  TempTree tree;
  Config config;
  config.rules = std::vector<Ruleset>{pressure_rule(60)};
  {
    RecordedRun run({tree / "recording", false}, config);
    for (int second = 1; second <= 4; ++second) {
      Observation observation;
      observation.at = policy::second(second);
      observation.node = policy::node(gib(4), gib(2));
      observation.rules =
          second <= 2 ? observed(observation.at, 0, {"r"}) : observed(observation.at, 10);
      run.evaluate(observation);
    }
  }
  replay::ReplayRules rules;
  rules.config = config;
  rules.config->rules = std::vector<Ruleset>{pressure_rule(5)};
  replay::RecordingReplay run(std::move(replay::RecordingInput::open(tree / "recording").value()),
                              rules);
  std::size_t fired = 0;
  for (auto step = run.next().value(); step; step = run.next().value()) {
    fired += step->decision.rulesets.size();
  }
  EXPECT_EQ(fired, 2U) << "where it was read";
  EXPECT_THAT(comparison_text(run), testing::HasSubstr("ruleset r: not decided for 2s"));
  EXPECT_EQ(comparison_of(run).rulesets_without_readings(0).missing_ns(), 2'000'000'000);
}

}  // namespace
}  // namespace forestall::test
