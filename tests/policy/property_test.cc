// SPDX-License-Identifier: Apache-2.0
// Properties that hold in every world, tried on many small random ones. Small numbers on purpose:
// ties, nesting and repeated kills are where orders break. Every failure names its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/parse.h"
#include "policy/credit.h"
#include "policy/step.h"
#include "tests/policy/dice.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

constexpr std::uint32_t kWorlds = 3'000;

std::string any_path(Dice& dice) {
  static const std::vector<std::string> kTops{"/a", "/ab", "/kubepods", "/c"};
  std::string path = kTops[static_cast<std::size_t>(dice.below(4))];
  for (auto depth = dice.below(3); depth > 0; --depth) path += "/" + std::to_string(dice.below(4));
  return path;
}

WorkloadSample any_workload(Dice& dice, const std::string& path) {
  auto sample = workload(path, Bytes{dice.below(12)});
  if (dice.one_in(3)) sample.workload.priority = static_cast<std::int32_t>(dice.below(4) - 1);
  if (dice.one_in(20)) sample.workload.priority = 2'000'000'000;
  if (dice.one_in(2)) sample.workload.memory_request = Bytes{dice.below(8)};
  if (dice.one_in(6)) sample.workload.protection = static_cast<Protection>(dice.below(6));
  if (dice.one_in(6)) sample.usage.reset();
  if (dice.one_in(5)) sample.inactive_file = Bytes{dice.below(6)};
  if (dice.one_in(8)) sample.processes.reset();
  if (dice.one_in(8)) sample.processes = 0;
  return sample;
}

std::vector<WorkloadSample> any_workloads(Dice& dice) {
  std::vector<std::string> paths;
  for (auto count = dice.below(14); count > 0; --count) paths.push_back(any_path(dice));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::vector<WorkloadSample> workloads;
  for (const std::string& path : paths) workloads.push_back(any_workload(dice, path));
  dice.shuffle(workloads);
  return workloads;
}

Config any_config(Dice& dice) {
  std::vector<Threshold> thresholds;
  for (auto count = 1 + dice.below(5); count > 0; --count) {
    Threshold threshold =
        hard(kSignals[static_cast<std::size_t>(dice.below(3))], Bytes{dice.below(30)});
    if (dice.one_in(3)) threshold.limit = Limit::share(static_cast<float>(dice.below(11)) / 10);
    if (dice.one_in(2)) threshold.min_reclaim = Limit::bytes({dice.below(20)});
    if (dice.one_in(5)) threshold = soft(threshold);
    if (dice.one_in(6)) threshold.capacity = Bytes{dice.below(60)};
    thresholds.push_back(threshold);
  }
  return config(thresholds);
}

Observation any_observation(Dice& dice, const Config& config) {
  Observation observation;
  observation.node = node({100}, {dice.below(110) - 10}, {dice.below(5)});
  if (dice.one_in(8)) observation.node.usage.reset();
  if (dice.one_in(2)) observation.pods = cgroup("/kubepods", {60}, {dice.below(60)});
  for (auto count = dice.below(4); count > 0; --count) {
    const auto threshold =
        static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(config.thresholds.size())));
    observation.watched.push_back(cgroup(any_path(dice), {40}, {dice.below(45) - 5}, threshold));
    if (dice.one_in(6)) observation.watched.back().limit.reset();
  }
  if (!dice.one_in(6)) observation.workloads = any_workloads(dice);
  for (auto count = dice.below(4); count > 0; --count) {
    const auto state = static_cast<KillState>(dice.below(4));
    observation.kills.push_back(kill(any_path(dice), {dice.below(12)}, state));
  }
  return observation;
}

State any_state(Dice& dice, const Config& config, const Observation& observation) {
  return dice.one_in(2) ? State{} : step(config, {}, observation).state;
}

TEST(PropertyTest, TheOrderOfTheInputDoesNotMatter) {
  std::size_t kills = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    Observation observation = any_observation(dice, config);
    const State state = any_state(dice, config, observation);
    const Step before = step(config, state, observation);
    if (observation.workloads) dice.shuffle(*observation.workloads);
    dice.shuffle(observation.kills);
    const Step after = step(config, state, observation);
    EXPECT_EQ(before.decision, after.decision) << seed;
    EXPECT_EQ(before.state, after.state) << seed;
    kills += before.decision.action == Action::kill ? 1 : 0;
  }
  EXPECT_GT(kills, kWorlds / 10) << "the worlds are too quiet to prove anything";
}

TEST(PropertyTest, ASeriesLastsUntilLimitAndMinimumReclaimAreThere) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Bytes limit{1 + dice.below(40)};
    const Bytes reclaim{dice.below(20)};
    const Config config = policy::config({hard(Signal::memory_available, limit, reclaim)});
    State state;
    bool in_series = false;
    for (int i = 0; i < 40; ++i) {
      Observation observation;
      const Bytes available{dice.below(70)};
      observation.node = node({100}, available);
      if (dice.one_in(3)) observation.kills = {kill("/a", {dice.below(30)})};
      in_series = available < (in_series ? limit + reclaim : limit);
      const Step now = step(config, state, observation);
      state = now.state;
      EXPECT_EQ(!state.driving.empty(), in_series) << seed << " step " << i;
      if (observation.kills.empty()) {
        EXPECT_EQ(now.decision.evidence[0].met, in_series) << seed << " step " << i;
      }
    }
  }
}

TEST(PropertyTest, NobodyIsKilledWhoMustNotBe) {
  std::size_t kills = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    const Step now = step(config, any_state(dice, config, observation), observation);
    const Decision& decision = now.decision;
    ASSERT_EQ(decision.action == Action::kill, decision.victim.has_value()) << seed;
    if (!decision.victim) continue;
    ++kills;
    ASSERT_TRUE(decision.driving.has_value()) << seed;
    const Evidence& evidence = decision.evidence[*decision.driving];
    const WorkloadSample& victim = decision.considered[*decision.victim].sample;
    EXPECT_TRUE(evidence.met) << seed;
    EXPECT_TRUE(evidence.threshold.hard()) << seed;
    EXPECT_LT(victim.workload.priority.value_or(0), kCriticalPriority) << seed;
    EXPECT_NE(victim.processes, std::optional<std::uint64_t>(0)) << seed;
    if (evidence.cgroup != CgroupId{}) {
      EXPECT_TRUE(path_is_within(victim.workload.path, evidence.subject)) << seed;
    }
    for (const WorkloadSample& other : *observation.workloads) {
      if (other.workload.protection == Protection::none) continue;
      EXPECT_FALSE(path_is_within(other.workload.path, victim.workload.path)) << seed;
    }
    for (const KillProgress& kill : observation.kills) {
      if (kill.state == KillState::released) continue;
      EXPECT_NE(kill.cgroup, victim.workload.cgroup) << seed;
    }
    for (std::size_t i = 0; i < *decision.victim; ++i) {
      EXPECT_NE(decision.considered[i].exclusion, Exclusion::none) << seed << ": not the first";
    }
  }
  EXPECT_GT(kills, kWorlds / 10) << "the worlds are too quiet to prove anything";
}

TEST(PropertyTest, CreditIsNeverMoreThanWhatIsThere) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    Bytes held;
    for (const KillProgress& kill : observation.kills) {
      if (kill.state == KillState::in_flight) held += kill.remaining;
    }
    for (const Evidence& evidence : step(config, {}, observation).decision.evidence) {
      EXPECT_GE(evidence.pending_release, Bytes{0}) << seed;
      EXPECT_LE(evidence.pending_release, held) << seed;
      EXPECT_LE(evidence.available + evidence.pending_release, evidence.capacity) << seed;
    }
  }
}

TEST(PropertyTest, DecisionsAreWellFormed) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    const State state = any_state(dice, config, observation);
    const Step now = step(config, state, observation);
    const Decision& decision = now.decision;
    EXPECT_EQ(now.decision, step(config, state, observation).decision) << seed;
    EXPECT_TRUE(std::is_sorted(now.state.driving.begin(), now.state.driving.end())) << seed;
    EXPECT_TRUE(std::is_partitioned(decision.evidence.begin(), decision.evidence.end(),
                                    [](const Evidence& one) { return one.met; }))
        << seed;
    EXPECT_TRUE(
        std::is_sorted(decision.considered.begin(), decision.considered.end(), evicted_before))
        << seed;
    EXPECT_EQ(decision.reason == Reason::no_data,
              decision.evidence.empty() && decision.action == Action::none)
        << seed;
    EXPECT_EQ(decision.action == Action::inspect, decision.reason == Reason::workloads_unread)
        << seed;
    if (observation.workloads) {
      EXPECT_NE(decision.action, Action::inspect) << seed;
    }
  }
}

}  // namespace
}  // namespace forestall::policy
