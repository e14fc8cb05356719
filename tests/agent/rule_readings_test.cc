// SPDX-License-Identifier: Apache-2.0
// When rulesets are read for, and which reading an evaluation gets.
#include <gtest/gtest.h>

#include "agent/rule_sampler.h"

namespace forestall::agent {
namespace {

class FakeSampler final : public RuleSampler {
 public:
  bool start(const RuleNeeds& needs) override {
    started = needs;
    ++starts;
    return true;
  }
  [[nodiscard]] std::optional<Reading> finish() override {
    if (!over) return std::nullopt;
    over = false;
    rulesets::RuleObservation read;
    read.time = std::chrono::seconds(5);
    return Reading{started, read};
  }

  RuleNeeds started;
  int starts = 0;
  bool over = false;
};

Config with_rule(const std::string& name, const std::string& slice) {
  rulesets::MemoryAbove usage;
  usage.cgroups = {{{slice}}};
  rulesets::Ruleset ruleset;
  ruleset.name = name;
  ruleset.groups = {{"g", {{"usage", usage}}}};
  Config config;
  config.rules = std::vector{ruleset};
  return config;
}

MonotonicTime at(int seconds) {
  return MonotonicTime(std::chrono::seconds(seconds));
}

TEST(RuleReadings, WithoutRulesetsNothingIsRead) {
  FakeSampler sampler;
  const RuleReadings readings(sampler, Config());
  EXPECT_EQ(readings.next_due(), std::nullopt);
}

TEST(RuleReadings, OneReadingASecondAndOneAtATime) {
  FakeSampler sampler;
  RuleReadings readings(sampler, with_rule("r", "a"));
  ASSERT_TRUE(readings.next_due());
  readings.start(at(10));
  EXPECT_EQ(readings.next_due(), std::nullopt) << "it reads";
  EXPECT_FALSE(readings.take());
  sampler.over = true;
  EXPECT_TRUE(readings.take());
  EXPECT_EQ(readings.next_due(), at(11));
}

TEST(RuleReadings, EachIsUsedOnce) {
  FakeSampler sampler;
  RuleReadings readings(sampler, with_rule("r", "a"));
  EXPECT_FALSE(readings.use());
  readings.start(at(1));
  sampler.over = true;
  EXPECT_TRUE(readings.take());
  EXPECT_EQ(readings.use()->time, std::chrono::seconds(5));
  EXPECT_FALSE(readings.use());
}

TEST(RuleReadings, OtherRulesetsGetNoReadingOfTheOldOnes) {
  FakeSampler sampler;
  RuleReadings readings(sampler, with_rule("r", "a"));
  readings.start(at(1));
  readings.reconfigured(with_rule("r", "b"));
  sampler.over = true;
  EXPECT_FALSE(readings.take()) << "it was begun for the old ones";
  readings.start(at(2));
  sampler.over = true;
  EXPECT_TRUE(readings.take());
  readings.reconfigured(with_rule("r", "b"));
  EXPECT_TRUE(readings.use()) << "equal rulesets keep it";
  readings.reconfigured(Config());
  EXPECT_EQ(readings.next_due(), std::nullopt);
}

}  // namespace
}  // namespace forestall::agent
