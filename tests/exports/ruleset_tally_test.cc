// SPDX-License-Identifier: Apache-2.0
// What `status` and the metrics report of rulesets.
#include "exports/ruleset_tally.h"

#include <gtest/gtest.h>

#include "exports/metrics.h"
#include "exports/status_board.h"

namespace forestall::exports {
namespace {

Config with_rulesets(std::initializer_list<const char*> names) {
  std::vector<rulesets::Ruleset> rulesets;
  for (const char* name : names) rulesets.emplace_back().name = name;
  Config config;
  config.rules = std::move(rulesets);
  return config;
}

// An evaluation at `second` in which `name` fired and acted on a cgroup.
template <typename Receiver>
void fires(Receiver& receiver, int second, const std::string& name, RuleOutcome outcome) {
  Observation observation;
  observation.at = MonotonicTime(std::chrono::seconds(second));
  observation.rules = rulesets::RuleObservation();
  Decision decision;
  RuleReport& report = decision.rulesets.emplace_back();
  report.name = name;
  report.group = "full";
  report.actions.emplace_back().attempts = {{"/a", outcome}};
  receiver.evaluated({observation, decision, observation.at});
}

TEST(RulesetTally, CountsWhatFiredAndWhatItDid) {
  RulesetTally tally;
  tally.configured(with_rulesets({"a", "b"}));
  fires(tally, 1, "b", RuleOutcome::killed);
  fires(tally, 2, "b", RuleOutcome::held);
  ASSERT_EQ(tally.all().size(), 2U);
  EXPECT_EQ(tally.all()[0].fired, 0U);
  EXPECT_EQ(tally.all()[0].last_fired, std::nullopt);
  const RulesetCounts& counts = tally.all()[1];
  EXPECT_EQ(counts.fired, 2U);
  EXPECT_EQ(counts.last_fired, MonotonicTime(std::chrono::seconds(2)));
  EXPECT_EQ(counts.last_group, "full");
  EXPECT_EQ(counts.attempts[static_cast<std::size_t>(RuleOutcome::killed)], 1U);
  EXPECT_EQ(counts.attempts[static_cast<std::size_t>(RuleOutcome::held)], 1U);
}

TEST(RulesetTally, AReloadKeepsTheCountsOfRulesetsThatRemain) {
  RulesetTally tally;
  tally.configured(with_rulesets({"a", "b"}));
  fires(tally, 1, "b", RuleOutcome::killed);
  tally.configured(with_rulesets({"b", "c"}));
  ASSERT_EQ(tally.all().size(), 2U);
  EXPECT_EQ(tally.all()[0].name, "b");
  EXPECT_EQ(tally.all()[0].fired, 1U);
  EXPECT_EQ(tally.all()[1].fired, 0U);
  fires(tally, 2, "a", RuleOutcome::killed);
  EXPECT_EQ(tally.all().size(), 2U) << "a ruleset that is gone is not counted";
}

TEST(RulesetTally, MetricsHaveEachRulesetByName) {
  StatusBoard board;
  board.set_config(with_rulesets({"a", "b"}));
  fires(board, 1, "b", RuleOutcome::killed);
  const Metrics metrics("1", Tier::files, {nullptr, nullptr, nullptr, nullptr, &board});
  const std::string text = metrics.text();
  EXPECT_NE(text.find("forestall_ruleset_fired_total{ruleset=\"a\"} 0"), std::string::npos);
  EXPECT_NE(text.find("forestall_ruleset_fired_total{ruleset=\"b\"} 1"), std::string::npos);
  EXPECT_NE(text.find("forestall_ruleset_attempts_total{ruleset=\"b\",outcome=\"killed\"} 1"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace forestall::exports
