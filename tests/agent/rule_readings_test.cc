// SPDX-License-Identifier: Apache-2.0
// When rulesets are read for, on which thread, and which reading an evaluation gets.
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>

#include "agent/rule_sampler.h"
#include "support/manual_clock.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

class FakeSampler final : public RuleSampler {
 public:
  bool start(const RuleNeeds& needs) override {
    started = needs;
    ++starts;
    return true;
  }
  [[nodiscard]] std::optional<Finished> finish() override {
    if (!over) return std::nullopt;
    over = false;
    rulesets::RuleObservation read;
    read.time = std::chrono::seconds(5);
    read.deferred = deferred;
    if (has_cgroups) read.cgroups.emplace_back().path = "/";
    return Finished{started, read, idle_until};
  }

  RuleNeeds started;
  int starts = 0;
  bool over = false;
  std::vector<std::string> deferred;
  bool has_cgroups = false;
  MonotonicTime idle_until{};
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

// A kill that waited for a hook does not wait for the next second.
TEST(RuleReadings, AHastenedReadingIsDueAtOnce) {
  FakeSampler sampler;
  RuleReadings readings(sampler, with_rule("r", "a"));
  readings.start(at(10));
  sampler.over = true;
  ASSERT_TRUE(readings.take());
  readings.hasten(at(10));
  EXPECT_EQ(readings.next_due(), at(10));
  readings.start(at(10));
  readings.hasten(at(20));
  sampler.over = true;
  ASSERT_TRUE(readings.take());
  EXPECT_EQ(readings.next_due(), at(11)) << "never later";
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

TEST(RuleReadings, WhileAllRulesetsAreDeferredOneEvaluationIsEnough) {
  FakeSampler sampler;
  RuleReadings readings(sampler, with_rule("r", "a"));
  const auto read = [&](int second) {
    readings.start(at(second));
    sampler.over = true;
    return readings.take() && readings.use();
  };
  sampler.deferred = {"r"};
  EXPECT_TRUE(read(1));
  EXPECT_FALSE(read(2));
  sampler.has_cgroups = true;
  EXPECT_TRUE(read(3)) << "an overview";
  sampler.has_cgroups = false;
  sampler.deferred.clear();
  EXPECT_TRUE(read(4));
  EXPECT_TRUE(read(5));
  sampler.deferred = {"r"};
  EXPECT_TRUE(read(6)) << "its detectors begin anew";
  EXPECT_FALSE(read(7));
  readings.reconfigured(with_rule("r", "b"));
  EXPECT_TRUE(read(8));
}

// All rulesets are deferred, and no gate can open before 20 s.
class RuleReadingsIdle : public ::testing::Test {
 protected:
  RuleReadingsIdle() {
    sampler_.deferred = {"r"};
    sampler_.idle_until = at(20);
    EXPECT_TRUE(read(1));
    EXPECT_EQ(readings_.next_due(), at(2)) << "another reading may be the first one that is used";
    EXPECT_FALSE(read(2));
    EXPECT_EQ(readings_.next_due(), at(20));
  }
  bool read(int second) {
    readings_.start(at(second));
    sampler_.over = true;
    return readings_.take() && readings_.use();
  }

  FakeSampler sampler_;
  RuleReadings readings_{sampler_, with_rule("r", "a")};
};

TEST_F(RuleReadingsIdle, WhatCanChangeIsReadOnceASecondAgain) {
  sampler_.deferred.clear();
  EXPECT_TRUE(read(20));
  EXPECT_EQ(readings_.next_due(), at(21));
}

TEST_F(RuleReadingsIdle, OtherRulesetsDoNotWait) {
  readings_.reconfigured(with_rule("r", "a"));
  EXPECT_EQ(readings_.next_due(), at(20)) << "they are the same";
  readings_.reconfigured(with_rule("r", "b"));
  EXPECT_EQ(readings_.next_due(), at(3)) << "a second after the last reading";
}

TEST_F(RuleReadingsIdle, AHastenedReadingDoesNotWait) {
  readings_.hasten(at(4));
  EXPECT_EQ(readings_.next_due(), at(4));
  readings_.start(at(4));
  readings_.hasten(at(4));
  sampler_.over = true;
  EXPECT_FALSE(readings_.take());
  EXPECT_EQ(readings_.next_due(), at(4)) << "during the reading";
  EXPECT_FALSE(read(5));
  EXPECT_EQ(readings_.next_due(), at(20));
}

// The loop decided without a reading, and takes the next one.
TEST(RuleReadings, AReadingThatWasNotUsedDefersNothing) {
  FakeSampler sampler;
  RuleReadings readings(sampler, with_rule("r", "a"));
  sampler.deferred = {"r"};
  for (int second = 1; second <= 2; ++second) {
    readings.start(at(second));
    sampler.over = true;
    EXPECT_TRUE(readings.take()) << second;
  }
}

bool has_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string found;
    if (std::getline(comm, found) && found == name) return true;
  }
  return false;
}

TEST(RuleSamplerThread, BeginsWithTheFirstRulesets) {
  const test::SmallNode files{"/a"};
  const auto tree = kernel::CgroupTree::discover(files / "cgroup");
  ASSERT_TRUE(tree) << tree.error().text();
  const test::ManualClock clock;
  const auto sampler = RuleSamplerThread::create(*tree, clock);
  ASSERT_TRUE(sampler) << sampler.error().text();
  ASSERT_TRUE((*sampler)->prepare(Config()));
  EXPECT_FALSE(has_thread("rule-sampler"));
  const Config config = with_rule("r", "a");
  ASSERT_TRUE((*sampler)->prepare(config));
  EXPECT_TRUE(has_thread("rule-sampler"));
  ASSERT_TRUE((*sampler)->prepare(config)) << "it runs already";
  const RuleNeeds needs(rulesets::reading_plan(*config.rules));
  ASSERT_TRUE((*sampler)->start(needs));
  pollfd over{(*sampler)->fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&over, 1, 10'000), 1);
  EXPECT_TRUE((*sampler)->finish());
}

}  // namespace
}  // namespace forestall::agent
