// SPDX-License-Identifier: Apache-2.0
// Which rulesets are deferred, and that a deferred one kills as one that is always read.
#include "rulesets/reading_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "rulesets/engine.h"

namespace forestall::rulesets {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const CgroupPatterns kPod{{{"pods", "a"}}};

PressureOver pressure_of_pod(double threshold, std::int64_t duration) {
  PressureOver pressure;
  pressure.cgroups = kPod;
  pressure.threshold = threshold;
  pressure.duration = duration;
  return pressure;
}

Kill kill_in_pod(KillBy by) {
  Kill kill;
  kill.by = by;
  kill.cgroups = {{{"pods", "a", "*"}}};
  return kill;
}

// One group with these detectors.
Ruleset deferrable(std::vector<PluginArguments> detectors, PluginArguments action) {
  Ruleset ruleset;
  ruleset.name = "r";
  DetectorGroup& group = ruleset.groups.emplace_back(DetectorGroup{"g", {}});
  for (PluginArguments& each : detectors) group.plugins.push_back({"detector", std::move(each)});
  ruleset.actions = {{"action", std::move(action)}};
  return ruleset;
}

std::vector<RuleGate> gates_of(std::vector<PluginArguments> detectors, PluginArguments action) {
  return reading_plan({deferrable(std::move(detectors), std::move(action))}).at(0).gates;
}

TEST(ReadingPlan, APressureOfNamedCgroupsIsAGate) {
  const auto gates =
      gates_of({MemoryReclaim{kPod, 10}, pressure_of_pod(90, 30)}, kill_in_pod(KillBy::pressure));
  ASSERT_THAT(gates, SizeIs(1));
  EXPECT_EQ(std::get<PressureGate>(gates[0]).cgroups, std::vector<std::string>{"/pods/a"});
  PressureOver wild = pressure_of_pod(90, 30);
  wild.cgroups = {{{"pods", "*"}}};
  EXPECT_THAT(gates_of({wild}, kill_in_pod(KillBy::pressure)), IsEmpty());
}

TEST(ReadingPlan, WhatIsReadLaterHasToFitIntoTheLead) {
  const auto kill = kill_in_pod(KillBy::pressure);
  const auto grown = kill_in_pod(KillBy::memory_size_or_growth);
  EXPECT_THAT(gates_of({pressure_of_pod(10, 22)}, grown), SizeIs(1));
  EXPECT_THAT(gates_of({pressure_of_pod(10, 21)}, grown), IsEmpty()) << "at the first update";
  EXPECT_THAT(gates_of({pressure_of_pod(60, 16)}, grown), SizeIs(1));
  EXPECT_THAT(gates_of({pressure_of_pod(60, 15)}, grown), IsEmpty());
  EXPECT_THAT(gates_of({pressure_of_pod(90, 2)}, grown), SizeIs(1));
  EXPECT_THAT(gates_of({AvailableBelow{}}, kill_in_pod(KillBy::swap_usage)), SizeIs(1));
  EXPECT_THAT(gates_of({AvailableBelow{}}, grown), IsEmpty());
}

TEST(ReadingPlan, AGateOfAvailableMemoryMayNeedSwap) {
  const auto kill = kill_in_pod(KillBy::swap_usage);
  AvailableBelow swap;
  swap.swap = true;
  const auto needs_swap = [&](std::vector<PluginArguments> detectors) {
    return std::get<AvailableGate>(gates_of(std::move(detectors), kill).at(0)).needs_swap;
  };
  EXPECT_FALSE(needs_swap({AvailableBelow{}}));
  EXPECT_TRUE(needs_swap({AvailableBelow{}, swap}));
  Host host;
  host.mem_total = 100;
  host.mem_available = 0;
  AvailableGate gate{AvailableBelow{}, true};
  gate.available.threshold = {true, 10};
  EXPECT_TRUE(is_open(gate, host)) << "it is not known whether there is swap";
  host.swap_total = 0;
  host.swap_free = 0;
  EXPECT_FALSE(is_open(gate, host));
  gate.needs_swap = false;
  EXPECT_TRUE(is_open(gate, host));
}

TEST(ReadingPlan, DetectorsThatDoNotFitAreAlwaysRead) {
  const auto always = [](const PressureOver& pressure, std::int64_t duration) {
    return reading_plan({deferrable({pressure, MemoryReclaim{kPod, duration}},
                                    kill_in_pod(KillBy::pressure))})[0]
        .always;
  };
  EXPECT_THAT(always(pressure_of_pod(60, 30), 33), IsEmpty());
  EXPECT_THAT(always(pressure_of_pod(60, 30), 34), SizeIs(2)) << "without the kill";
  EXPECT_THAT(always(pressure_of_pod(10, 0), 0), SizeIs(2)) << "growth needs two readings";
  EXPECT_THAT(always(pressure_of_pod(90, 20), 30), IsEmpty()) << "as systemd-oomd, 90 %";
  EXPECT_THAT(always(pressure_of_pod(60, 20), 30), SizeIs(2)) << "its default limit";
}

TEST(ReadingPlan, EachGroupNeedsAGate) {
  Ruleset ruleset = deferrable({pressure_of_pod(60, 30)}, kill_in_pod(KillBy::pressure));
  ruleset.groups.push_back({"h", {{"exists", Exists{kPod}}}});
  EXPECT_THAT(reading_plan({ruleset})[0].gates, IsEmpty());
}

TEST(ReadingPlan, OnlyKillsAreDeferred) {
  EXPECT_THAT(gates_of({pressure_of_pod(60, 30)}, LogAction{"high"}), SizeIs(1));
  EXPECT_THAT(gates_of({pressure_of_pod(60, 30)}, Freeze{kPod, 10}), IsEmpty());
  EXPECT_THAT(gates_of({pressure_of_pod(60, 30)}, RestartUnit{"a.service"}), IsEmpty());
}

TEST(ReadingPlan, PressureThatMustNotFallHasAnEarlierAverage) {
  PressureOver rising = pressure_of_pod(60, 30);
  rising.falling_at_most_to = 0.85F;
  EXPECT_THAT(gates_of({rising}, kill_in_pod(KillBy::pressure)), IsEmpty());
  EXPECT_THAT(gates_of({rising, pressure_of_pod(60, 31)}, kill_in_pod(KillBy::pressure)), SizeIs(1))
      << "beside another one";
}

TEST(ReadingPlan, RulesetsOfOneNameAreNotDeferred) {
  const Ruleset ruleset = deferrable({pressure_of_pod(60, 30)}, kill_in_pod(KillBy::pressure));
  EXPECT_THAT(reading_plan({ruleset, ruleset})[1].gates, IsEmpty());
}

TEST(ReadingPlan, TheOverviewHasNoCandidatesBelow) {
  Kill kill = kill_in_pod(KillBy::pg_scan);
  kill.cgroups = kPod;
  kill.recursive = true;
  EXPECT_THAT(reading_plan({deferrable({pressure_of_pod(60, 30)}, kill)})[0].overview, IsEmpty());
  kill.preference = PreferenceSource::systemd;
  const auto plan = reading_plan({deferrable({pressure_of_pod(60, 30)}, kill)});
  ASSERT_THAT(plan[0].overview, SizeIs(2));
  EXPECT_EQ(plan[0].overview[1].cgroups, kPod);
  EXPECT_FALSE(plan[0].overview[1].descend);
}

TEST(ReadingPlan, ALiteralPathHasNoWildcard) {
  EXPECT_EQ(literal_path({}), "/");
  EXPECT_EQ(literal_path({{"a", "b\\*c"}}), "/a/b*c");
  EXPECT_EQ(literal_path({{"a", "b?"}}), std::nullopt);
  EXPECT_EQ(literal_path({{"{a}"}}), std::nullopt);
  EXPECT_EQ(literal_path({{"a\\"}}), std::nullopt);
}

TEST(ReadingPlan, AGateOpensAsLateAsItsLeadPermits) {
  const auto opens_above = [](const PressureOver& pressure, std::int64_t duration) {
    const auto gates =
        gates_of({pressure, MemoryReclaim{kPod, duration}}, kill_in_pod(KillBy::pressure));
    return std::get<PressureGate>(gates.at(0)).open_above;
  };
  EXPECT_EQ(opens_above(pressure_of_pod(60, 30), 27), 60);
  EXPECT_EQ(opens_above(pressure_of_pod(60, 30), 33), 10) << "6 s: 10.98, and four more updates";
  EXPECT_EQ(opens_above(pressure_of_pod(90, 20), 29), 59) << "12 s: 59.4, and seven";
}

TEST(ReadingPlan, AGateComparesItsAverage) {
  PressureGate gate;
  PressureFile file;
  EXPECT_EQ(average_of(gate, file), 0);
  file.some = PressureLine{9, 8, 7, 1};
  file.full = PressureLine{6, 5, 4, 1};
  EXPECT_EQ(average_of(gate, file), 6);
  gate.average = PressureOver::Average::avg60;
  EXPECT_EQ(average_of(gate, file), 5);
  gate.some = true;
  EXPECT_EQ(average_of(gate, file), 8);
  gate.open_above = 8;
  EXPECT_FALSE(is_open(gate, 8));
  EXPECT_TRUE(is_open(gate, 8.01));
}

TEST(ReadingPlan, AGateStaysShutWhileItsAverageRises) {
  PressureGate gate;
  gate.open_above = 90;
  EXPECT_EQ(shut_for(gate, 0), std::chrono::seconds(20));
  EXPECT_EQ(shut_for(gate, 60), std::chrono::seconds(10));
  EXPECT_EQ(shut_for(gate, 85), std::chrono::seconds(2));
  EXPECT_EQ(shut_for(gate, 89), std::chrono::seconds(0));
  gate.open_above = 0;
  EXPECT_EQ(shut_for(gate, 0), std::chrono::seconds(0));
}

// A pod with two containers: phases of pressure, of reclaim and of growth. It is read every second,
// up to `late` later.
class PodStory {
 public:
  PodStory(unsigned seed, std::chrono::milliseconds late) : dice_(seed), late_(late) {}

  RuleObservation next() {
    time_ += std::chrono::milliseconds(1000 + below(late_.count() + 1));
    while (std::chrono::seconds(second_ + 1) <= time_) pass_second();
    RuleObservation seen;
    seen.time = time_;
    seen.host.mem_total = 1'000'000;
    for (const char* path : {"/", "/pods", "/pods/a", "/pods/a/x", "/pods/a/y"}) add(path, seen);
    return seen;
  }

 private:
  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(dice_);
  }
  void pass_second() {
    ++second_;
    if (second_ >= phase_end_) begin_phase();
    if (second_ % 2 == 0) {
      avg10_ += (stalled_ - avg10_) * (1 - std::exp(-0.2));
      avg60_ += (stalled_ - avg60_) * (1 - std::exp(-2.0 / 60));
    }
    if (reclaims_) pgscan_ += 1 + below(100);
  }
  void begin_phase() {
    phase_end_ = second_ + 1 + below(below(2) == 0 ? 5 : below(4) == 0 ? 400 : 60);
    stalled_ = below(2) == 0 ? 0 : static_cast<double>(60 + below(41));
    reclaims_ = below(2) == 0;
    for (std::int64_t& each : usage_) each = 1'000'000 + below(9'000'000);
  }
  void add(const std::string& path, RuleObservation& seen) {
    Cgroup& cgroup = seen.cgroups.emplace_back();
    cgroup.path = path;
    cgroup.id = seen.cgroups.size();
    const auto hundredths = [](double value) {
      return static_cast<float>(std::floor(value * 100) / 100);
    };
    cgroup.memory_pressure.emplace().full =
        PressureLine{hundredths(avg10_), hundredths(avg60_), 0, std::nullopt};
    cgroup.stat.emplace().pgscan = pgscan_;
    cgroup.current = usage_[seen.cgroups.size() % 2];
    cgroup.populated = true;
  }

  std::mt19937 dice_;
  const std::chrono::milliseconds late_;
  std::chrono::milliseconds time_{0};
  std::int64_t second_ = 0;
  std::int64_t phase_end_ = 0;
  double stalled_ = 0;
  double avg10_ = 0;
  double avg60_ = 0;
  bool reclaims_ = false;
  std::int64_t pgscan_ = 1000;
  std::int64_t usage_[2] = {1'000'000, 1'000'000};
};

// One evaluation, all kills of which succeed: what it did, in words.
std::string evaluate(const RuleConfig& config, RuleState& state, const RuleObservation& seen) {
  std::vector<EffectAnswer> answers;
  RuleStep step = rulesets::step(config, state, seen, answers);
  while (step.wanted) {
    answers.push_back(EffectAnswer::yes);
    step = rulesets::step(config, state, seen, answers);
  }
  state = std::move(step.state);
  std::string words;
  for (const RulesetRun& each : step.decision.rulesets) words += each.group.value_or("-") + " ";
  for (const RuleKill& each : step.decision.kills) words += each.cgroup + " ";
  return words;
}

struct Comparison {
  int fired = 0;
  int deferred = 0;
  std::string difference;
};

Comparison compare(const Ruleset& ruleset, unsigned seed, std::chrono::milliseconds late) {
  const RulesetReading reading = reading_plan({ruleset}).at(0);
  RuleConfig config;
  config.program = RuleProgram({ruleset}, {});
  RuleState whole;
  RuleState deferring;
  PodStory story(seed, late);
  Comparison result;
  std::chrono::nanoseconds open_until{0};
  std::chrono::nanoseconds shut_until{0};
  for (int second = 1; second <= 1200 && result.difference.empty(); ++second) {
    const RuleObservation seen = story.next();
    RuleObservation part = seen;
    const PressureGate& gate = std::get<PressureGate>(reading.gates.at(0));
    if (seen.time >= shut_until) {
      const double average = average_of(gate, *seen.cgroups[2].memory_pressure);
      if (is_open(gate, average)) {
        open_until = seen.time + reading.kept;
      } else {
        shut_until = seen.time + shut_for(gate, average);
      }
    }
    if (seen.time >= open_until) {
      // All above the candidates, which are the last two.
      part.cgroups.resize(reading.always.empty() ? 0 : seen.cgroups.size() - 2);
      if (reading.always.empty()) part.deferred = {ruleset.name};
      ++result.deferred;
    }
    const std::string expected = evaluate(config, whole, seen);
    const std::string found = evaluate(config, deferring, part);
    if (!expected.empty()) ++result.fired;
    if (found != expected) {
      result.difference = std::to_string(second) + ": " + found + "instead of " + expected;
    }
  }
  return result;
}

void expect_same(const Ruleset& ruleset, std::chrono::milliseconds late) {
  int fired = 0;
  int deferred = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const Comparison found = compare(ruleset, seed, late);
    EXPECT_EQ(found.difference, "") << "seed " << seed;
    fired += found.fired;
    deferred += found.deferred;
  }
  EXPECT_GT(fired, 20);
  EXPECT_GT(deferred, 200);
}

class DeferredRuleset : public testing::TestWithParam<int> {
 protected:
  static void expect_same(const Ruleset& ruleset) {
    rulesets::expect_same(ruleset, std::chrono::milliseconds(GetParam()));
  }
};

TEST_P(DeferredRuleset, ActsAsOneThatIsAlwaysRead) {
  expect_same(deferrable({pressure_of_pod(60, 30), MemoryReclaim{kPod, 30}},
                         kill_in_pod(KillBy::memory_size_or_growth)));
  expect_same(
      deferrable({MemoryReclaim{kPod, 5}, pressure_of_pod(20, 10)}, kill_in_pod(KillBy::pressure)));
  expect_same(deferrable({pressure_of_pod(20, 0)}, kill_in_pod(KillBy::pg_scan)));
  expect_same(deferrable({pressure_of_pod(60, 20), MemoryReclaim{kPod, 30}},
                         kill_in_pod(KillBy::memory_size_or_growth)));
  expect_same(deferrable({pressure_of_pod(90, 2), MemoryReclaim{kPod, 20}},
                         kill_in_pod(KillBy::memory_size_or_growth)));
  PressureOver longer = pressure_of_pod(30, 25);
  longer.measure = PressureOver::Average::avg60;
  expect_same(deferrable({longer, RateAbove{kPod, RateAbove::Of::scans, 10, 20}},
                         kill_in_pod(KillBy::memory_size_or_growth)));
}

// Milliseconds by which a reading is late at most.
INSTANTIATE_TEST_SUITE_P(Lateness, DeferredRuleset, testing::Values(0, 700));

}  // namespace
}  // namespace forestall::rulesets
