// SPDX-License-Identifier: Apache-2.0
// Proactive reclaim: when it reclaims how much, and when it pauses.
#include "rulesets/proactive_reclaim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rulesets/needs.h"

namespace forestall::test {
namespace {

using namespace rulesets;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kUsage = 1000 * kMiB;

// One ruleset that always fires, on a node with /a, /b and the root, a second at a time.
class ProactiveReclaimTest : public ::testing::Test {
 protected:
  ProactiveReclaimTest() {
    config_.cgroups = {{{"a"}}};
    config_.every = 2;
    for (const char* path : {"/", "/a", "/b"}) {
      Cgroup& cgroup = observed_.cgroups.emplace_back();
      cgroup.path = path;
      cgroup.id = observed_.cgroups.size();
      cgroup.current = kUsage;
      cgroup.min = 0;
      cgroup.low = 0;
      cgroup.has_reclaim = true;
      PressureLine none;
      none.total_us = 7'000'000;  // before this agent
      cgroup.memory_pressure = PressureFile{none, none};
    }
    observed_.host.swap_total = 0;
    observed_.host.swap_free = 0;
    observed_.time = std::chrono::seconds(100);
  }
  Cgroup& cgroup(std::size_t index) { return observed_.cgroups[index]; }
  Cgroup& root() { return cgroup(0); }
  Cgroup& a() { return cgroup(1); }
  // Stall time of /a and of the node, in microseconds.
  void stall(std::int64_t of_cgroup, std::int64_t of_node = 0) {
    *a().memory_pressure->some->total_us += of_cgroup;
    *root().memory_pressure->full->total_us += of_node;
  }
  // The attempts, as "<cgroup> <outcome> <bytes>".
  std::vector<std::string> evaluate() {
    Ruleset ruleset;
    ruleset.name = "reclaim:a";
    ruleset.groups = {{"always", {{"always", Always{fires_}}}}};
    ruleset.actions = {{std::string(kProactiveReclaim), config_}};
    RuleConfig config;
    std::vector<Ruleset> all{ruleset};
    if (second_) {
      all.push_back(ruleset);
      all.back().name = "reclaim:b";
      all.back().actions[0].arguments = *second_;
    }
    config.program = RuleProgram(all, {});
    config.dry_run = dry_run_;
    const RuleStep result = step(config, state_, observed_, {});
    EXPECT_FALSE(result.wanted);
    state_ = result.state;
    writes_ = result.decision.writes;
    std::vector<std::string> attempts;
    for (const RulesetRun& run : result.decision.rulesets) {
      for (const KillAttempt& each : run.actions.at(0).attempts) {
        attempts.push_back(each.cgroup + " " + std::string(to_string(each.outcome)) + " " +
                           std::to_string(each.value));
      }
    }
    observed_.time += std::chrono::seconds(1);
    return attempts;
  }
  // Until the next reclaim is due.
  void wait(int seconds = 2) {
    for (int i = 0; i < seconds; ++i) EXPECT_THAT(evaluate(), IsEmpty()) << i;
  }

  ProactiveReclaim config_;
  std::optional<ProactiveReclaim> second_;
  bool fires_ = true;
  bool dry_run_ = false;
  RuleObservation observed_;
  RuleState state_;
  std::vector<RuleWrite> writes_;
};

TEST_F(ProactiveReclaimTest, ReclaimsAStepOfAnIdleCgroupAfterEachInterval) {
  wait();
  // 1 % of 1000 MiB, in whole pages.
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  ASSERT_EQ(writes_.size(), 1U);
  EXPECT_EQ(writes_[0].cgroup, "/a");
  EXPECT_EQ(writes_[0].file, "memory.reclaim");
  EXPECT_EQ(writes_[0].value, 10 * kMiB);
  wait(1);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
}

TEST_F(ProactiveReclaimTest, NoCgroupThatIsNotNamedIsReclaimedFrom) {
  config_.every = 1;
  std::vector<std::string> all;
  for (int i = 0; i < 20; ++i) {
    for (const std::string& each : evaluate()) all.push_back(each);
  }
  EXPECT_EQ(all.size(), 15U) << "in each fourth second the node is measured";
  EXPECT_THAT(all, testing::Each(testing::StartsWith("/a ")));
}

// 0.1 % of 2 s are 2000 microseconds.
TEST_F(ProactiveReclaimTest, TheStepShrinksWithTheSquareOfTheStallTime) {
  wait();
  stall(200);  // a tenth: the whole step
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  wait(1);
  stall(400);  // a fifth: a quarter of the step
  EXPECT_THAT(evaluate(), ElementsAre("/a written 2621440"));
  wait(1);
  stall(2000);  // all of it: a hundredth, 25.6 pages
  EXPECT_THAT(evaluate(), ElementsAre("/a written 102400"));
}

TEST_F(ProactiveReclaimTest, PressureAboveTheTargetPausesAtOnce) {
  config_.back_off = 5;
  wait(1);
  stall(2001);  // before the end of the window
  EXPECT_THAT(evaluate(), ElementsAre("/a backed-off 0"));
  EXPECT_THAT(writes_, IsEmpty());
  wait(4);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
}

TEST_F(ProactiveReclaimTest, APauseLastsUntilThePressureHasBeenLowForItsTime) {
  config_.back_off = 5;
  wait(1);
  stall(2001);
  EXPECT_THAT(evaluate(), ElementsAre("/a backed-off 0"));
  for (int i = 0; i < 20; ++i) {
    stall(2001);
    EXPECT_THAT(evaluate(), IsEmpty()) << "one pause, reported once";
  }
  wait(4);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  stall(2001);
  EXPECT_THAT(evaluate(), ElementsAre("/a backed-off 0")) << "another one";
}

TEST_F(ProactiveReclaimTest, AStallingNodePausesAllCgroups) {
  wait(1);
  stall(0, 50'000);  // 5 % of a second
  EXPECT_THAT(evaluate(), IsEmpty());
  stall(0, 50'001);
  EXPECT_THAT(evaluate(), ElementsAre("/a node-stalls 0"));
  wait(29);
}

// The task that writes to memory.reclaim stalls, and is one of the node's.
TEST_F(ProactiveReclaimTest, TheAgentsOwnWritesAreNoStallOfTheNode) {
  second_ = config_;
  second_->cgroups = {{{"b"}}};
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760", "/b written 10485760"));
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), IsEmpty()) << "the second after the write";
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), ElementsAre("/a node-stalls 0", "/b node-stalls 0"));
}

// Each evaluation has a write before it, so none of them shows the node's own stall.
TEST_F(ProactiveReclaimTest, TheNodeIsMeasuredThoughEachEvaluationReclaims) {
  config_.every = 1;
  wait(1);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  for (int i = 0; i < 2; ++i) {
    stall(0, 900'000);
    EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  }
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), IsEmpty()) << "writes nothing, so that the next second is measured";
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), ElementsAre("/a node-stalls 0"));
}

TEST_F(ProactiveReclaimTest, TheNodeIsMeasuredThoughRulesetsReclaimInTurn) {
  second_ = config_;
  second_->cgroups = {{{"b"}}};
  cgroup(2).has_reclaim = false;
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  cgroup(2).id = 77;  // begins a second after /a, and is due in the seconds in which /a is not
  cgroup(2).has_reclaim = true;
  wait(1);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
  EXPECT_THAT(evaluate(), ElementsAre("/b written 10485760"));
  int evaluations = 0;
  std::vector<std::string> attempts;
  do {
    stall(0, 900'000);
    attempts = evaluate();
    ASSERT_LT(++evaluations, 10);
  } while (std::ranges::find(attempts, "/a node-stalls 0") == attempts.end());
  EXPECT_THAT(attempts, ElementsAre("/a node-stalls 0", "/b node-stalls 0"));
}

// The first ruleset decides its next write before the second one compares.
TEST_F(ProactiveReclaimTest, WritesOfEachSecondAreNoStallOfTheNodeForTheNextRuleset) {
  config_.every = 1;
  second_ = config_;
  second_->cgroups = {{{"b"}}};
  cgroup(2).has_reclaim = false;
  wait(1);
  const auto written = ElementsAre("/a written 10485760");
  EXPECT_THAT(evaluate(), written);
  for (int i = 0; i < 2; ++i) {
    stall(0, 900'000);
    EXPECT_THAT(evaluate(), written);
  }
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), IsEmpty());
  EXPECT_THAT(evaluate(), written) << "without a write the node does not stall";
}

TEST_F(ProactiveReclaimTest, ADryRunHidesNoStallOfTheNode) {
  second_ = config_;
  second_->cgroups = {{{"b"}}};
  second_->dry = true;
  cgroup(1).has_reclaim = false;
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/b dry 10485760"));
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), ElementsAre("/a node-stalls 0", "/b node-stalls 0"));
}

// A write that the same evaluation decides begins after its readings.
TEST_F(ProactiveReclaimTest, AWriteOfThisEvaluationHidesNoStallFromTheNextRuleset) {
  config_.node_pressure = 100;
  second_ = config_;
  second_->cgroups = {{{"b"}}};
  second_->node_pressure = 5;
  wait();
  stall(0, 900'000);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760", "/b node-stalls 0"));
}

TEST_F(ProactiveReclaimTest, UsageStaysAboveTheFloorAndWhatIsProtected) {
  config_.floor = kUsage - 4 * kMiB;
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a written 4194304"));
  a().min = kUsage - 3 * kMiB;
  wait(1);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 3145728"));
  a().low = kUsage - 2 * kMiB;
  wait(1);
  EXPECT_THAT(evaluate(), ElementsAre("/a written 2097152"));
  a().low = kNoLimit;
  wait(2);
  a().low = 0;
  a().current = config_.floor + 4095;
  wait(4);
}

TEST_F(ProactiveReclaimTest, NoWriteExceedsItsLimit) {
  a().current = 100'000 * kMiB;
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a written 33554432"));
}

TEST_F(ProactiveReclaimTest, SwapThatIsNeededLaterStaysFree) {
  observed_.host.swap_total = 1000;
  observed_.host.swap_free = 199;
  wait(4);
  observed_.host.swap_free = 200;
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
}

TEST_F(ProactiveReclaimTest, AMissingReadingNeverLeadsToAReclaim) {
  const std::vector<Cgroup> complete = observed_.cgroups;
  const Host host = observed_.host;
  const std::vector<void (*)(RuleObservation&)> losses{
      [](RuleObservation& o) { o.cgroups[1].current.reset(); },
      [](RuleObservation& o) { o.cgroups[1].min.reset(); },
      [](RuleObservation& o) { o.cgroups[1].low.reset(); },
      [](RuleObservation& o) { o.cgroups[1].has_reclaim = false; },
      [](RuleObservation& o) { o.cgroups[1].memory_pressure.reset(); },
      [](RuleObservation& o) { o.cgroups[1].memory_pressure->some.reset(); },
      [](RuleObservation& o) { o.cgroups[1].memory_pressure->some->total_us.reset(); },
      [](RuleObservation& o) { o.cgroups[0].memory_pressure.reset(); },
      [](RuleObservation& o) { o.cgroups[0].memory_pressure->full.reset(); },
      [](RuleObservation& o) { o.cgroups[0].memory_pressure->full->total_us.reset(); },
      [](RuleObservation& o) { o.host.swap_total.reset(); },
      [](RuleObservation& o) { o.host.swap_free.reset(); }};
  for (const auto loss : losses) {
    observed_.cgroups = complete;
    observed_.host = host;
    loss(observed_);
    wait(6);
  }
}

TEST_F(ProactiveReclaimTest, ACgroupThatWasCreatedAgainBeginsAnew) {
  wait();
  a().id = 77;
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
}

TEST_F(ProactiveReclaimTest, ARulesetThatDidNotFireBeginsAnew) {
  wait();
  fires_ = false;
  wait(1);
  fires_ = true;
  stall(900'000);  // while it did not
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a written 10485760"));
}

TEST_F(ProactiveReclaimTest, ADryRunReportsAndWritesNothing) {
  dry_run_ = true;
  wait();
  EXPECT_THAT(evaluate(), ElementsAre("/a dry 10485760"));
  EXPECT_THAT(writes_, IsEmpty());
  dry_run_ = false;
  config_.dry = true;
  wait(1);
  EXPECT_THAT(evaluate(), ElementsAre("/a dry 10485760"));
  EXPECT_THAT(writes_, IsEmpty());
}

TEST_F(ProactiveReclaimTest, WhatItDecidesOnIsReadOfTheNamedCgroupsAndTheNode) {
  Ruleset ruleset;
  ruleset.actions = {{std::string(kProactiveReclaim), config_}};
  EXPECT_THAT(needs_of({ruleset}),
              ElementsAre(RuleNeed{config_.cgroups, Items(Item::usage) | Item::reclaim |
                                                        Item::memory_pressure | Item::floor},
                          RuleNeed{{CgroupPattern{}}, Item::memory_pressure}));
}

// Whatever the readings: no write below a floor, above a limit, or of another cgroup.
TEST_F(ProactiveReclaimTest, RandomReadingsKeepAllLimits) {
  std::mt19937_64 random(18);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  config_.every = 1;
  config_.step = 10;
  config_.back_off = 1;
  int written = 0;
  for (int i = 0; i < 20'000; ++i) {
    a().current = below(600) * kMiB + below(4096);
    a().min = below(5) == 0 ? below(500) * kMiB : 0;
    a().low = below(5) == 0 ? below(500) * kMiB : 0;
    const bool node = below(9) == 0;
    const bool over = below(7) == 0;
    stall(over ? 1001 + below(1'000'000) : below(200), node ? below(1'000'000) : 0);
    static_cast<void>(evaluate());
    for (const RuleWrite& each : writes_) {
      ++written;
      EXPECT_FALSE(over);
      EXPECT_EQ(each.cgroup, "/a");
      EXPECT_EQ(each.value % 4096, 0);
      EXPECT_GT(each.value, 0);
      EXPECT_LE(each.value, 32 * kMiB);
      EXPECT_LE(each.value, *a().current / 10);
      EXPECT_GE(*a().current - each.value, std::max({config_.floor, *a().min, *a().low}));
    }
  }
  EXPECT_GT(written, 1000);
}

}  // namespace
}  // namespace forestall::test
