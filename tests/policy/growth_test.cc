// SPDX-License-Identifier: Apache-2.0
// Ranking::kubelet_growth: within kubelet's classes, the workload that grew most since the warning
// is first; and the baseline for growth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/growth_baseline.h"
#include "policy/rank.h"
#include "policy/step.h"
#include "tests/policy/dice.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using testing::ElementsAre;

WorkloadSample grown(WorkloadSample sample, std::optional<Bytes> growth) {
  sample.growth = growth;
  return sample;
}

RankBy by(Ranking ranking, Signal signal = Signal::memory_available) {
  return {.signal = signal, .layout = {}, .compat = {}, .ranking = ranking};
}

std::vector<Candidate> ranked(const std::vector<WorkloadSample>& workloads,
                              Ranking ranking = Ranking::kubelet_growth,
                              Signal signal = Signal::memory_available) {
  return rank(workloads, by(ranking, signal), Subject{}, Exclusions(workloads, {}));
}

std::vector<std::string> names(const std::vector<Candidate>& order) {
  std::vector<std::string> names;
  for (const Candidate& one : order) names.push_back(one.sample.workload.name);
  return names;
}

std::vector<std::string> order(const std::vector<WorkloadSample>& workloads,
                               Ranking ranking = Ranking::kubelet_growth) {
  return names(ranked(workloads, ranking));
}

// The spike of scenario c of vmtests/bench: the growing workloads are still smaller than the
// constant one.
std::vector<WorkloadSample> spike() {
  return {grown(workload("/be-batch", mib(180)), mib(0)),
          grown(workload("/be-spike1", mib(120)), mib(110)),
          grown(workload("/be-spike2", mib(125)), mib(115)),
          grown(workload("/bu-spike", mib(130), 0, mib(64)), mib(105))};
}

TEST(GrowthRankingTest, InASpikeTheConstantWorkloadIsLastOfItsClass) {
  EXPECT_THAT(order(spike(), Ranking::kubelet),
              ElementsAre("be-batch", "be-spike2", "be-spike1", "bu-spike"));
  EXPECT_THAT(order(spike()), ElementsAre("be-spike2", "be-spike1", "bu-spike", "be-batch"));
  const auto candidates = ranked(spike());
  EXPECT_EQ(deciding_rule(candidates[0].key, candidates[1].key, Resource::memory,
                          Ranking::kubelet_growth),
            "growth");
}

TEST(GrowthRankingTest, KubeletsClassesComeFirst) {
  const std::vector<WorkloadSample> workloads{
      grown(workload("/within", mib(90), std::nullopt, mib(100)), mib(80)),
      grown(workload("/precious", mib(50), 10), mib(40)),
      grown(workload("/calm", mib(20)), mib(0)),
      workload("/unmeasured", std::nullopt),
  };
  EXPECT_THAT(order(workloads), ElementsAre("unmeasured", "calm", "precious", "within"));
}

TEST(GrowthRankingTest, NoiseIsNoGrowth) {
  const std::vector<WorkloadSample> small{grown(workload("/large", mib(50)), kib(10)),
                                          grown(workload("/small", mib(5)), kib(900))};
  EXPECT_THAT(order(small), ElementsAre("large", "small")) << "below 1 MiB";
  const std::vector<WorkloadSample> beside{grown(workload("/culprit", mib(700)), mib(640)),
                                           grown(workload("/noisy", mib(20)), mib(10) - Bytes{1}),
                                           grown(workload("/large", mib(300)), mib(0)),
                                           grown(workload("/helper", mib(30)), mib(10))};
  EXPECT_THAT(order(beside), ElementsAre("culprit", "helper", "large", "noisy"))
      << "below 1/64 of the largest";
  EXPECT_EQ(ranked(beside)[3].key.growth, 0);
  EXPECT_EQ(ranked(beside)[3].sample.growth, mib(10) - Bytes{1}) << "still shown as it was";
}

TEST(GrowthRankingTest, UnknownGrowthCountsAsNone) {
  EXPECT_THAT(order({workload("/large", mib(50)), grown(workload("/grew", mib(5)), mib(4)),
                     workload("/small", mib(2))}),
              ElementsAre("grew", "large", "small"));
}

TEST(GrowthRankingTest, OnlyMemoryAndOnlyThisRankingGoByIt) {
  for (const Signal signal : kSignals) {
    const bool memory = resource_of(signal) == Resource::memory;
    EXPECT_EQ(ranked(spike(), Ranking::kubelet_growth, signal)[0].key.growth.has_value(), memory);
    EXPECT_EQ(ranked(spike(), Ranking::kubelet, signal)[0].key.growth, std::nullopt);
  }
}

// Without growth, the order must be kubelet's.
TEST(GrowthRankingTest, WithoutGrowthTheOrderIsKubelets) {
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    Dice dice(seed);
    std::vector<WorkloadSample> workloads;
    for (std::int64_t i = dice.below(10); i > 0; --i) {
      WorkloadSample sample = workload("/" + std::to_string(i), mib(dice.below(6)));
      if (dice.one_in(3)) sample.workload.memory_request = mib(dice.below(6));
      if (dice.one_in(3)) sample.workload.priority = static_cast<std::int32_t>(dice.below(3));
      if (dice.one_in(5)) sample.usage.reset();
      workloads.push_back(sample);
    }
    EXPECT_EQ(order(workloads), order(workloads, Ranking::kubelet)) << seed;
    for (WorkloadSample& each : workloads) each.growth = Bytes{dice.below(kGrowthNoiseMin.count)};
    EXPECT_EQ(order(workloads), order(workloads, Ranking::kubelet)) << seed << ": noise";
  }
}

// More growth never moves a workload back; it stays in its kubelet class.
TEST(GrowthRankingTest, GrowingMoreNeverMovesAWorkloadBack) {
  std::size_t moved = 0;
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    Dice dice(seed);
    std::vector<WorkloadSample> workloads;
    for (std::int64_t i = 1 + dice.below(8); i > 0; --i) {
      workloads.push_back(grown(workload("/" + std::to_string(i), mib(dice.below(6)),
                                         static_cast<std::int32_t>(dice.below(2))),
                                mib(dice.below(200))));
    }
    WorkloadSample& one = workloads[static_cast<std::size_t>(
        dice.below(static_cast<std::int64_t>(workloads.size())))];
    const std::string name = one.workload.name;
    const auto place = [&] {
      const auto reported = order(workloads);
      return std::find(reported.begin(), reported.end(), name) - reported.begin();
    };
    const auto before = place();
    *one.growth += mib(dice.below(200));
    const auto after = place();
    EXPECT_LE(after, before) << seed;
    moved += after < before ? 1 : 0;
  }
  EXPECT_GT(moved, 200U) << "too few moves to prove anything";
}

TEST(GrowthRankingTest, TheStepUsesThisRanking) {
  Config config = policy::config({hard(Signal::memory_available, mib(100))});
  config.ranking = Ranking::kubelet_growth;
  Observation observation;
  observation.at = second(1);
  observation.node = node(gib(2), mib(90));
  observation.workloads = spike();
  const Decision decision = step(config, {}, observation).decision;
  ASSERT_TRUE(decision.victim());
  EXPECT_EQ(decision.considered[*decision.victim()].sample.workload.name, "be-spike2");
}

std::optional<Bytes> growth_of(const GrowthBaseline& baseline, const WorkloadSample& sample) {
  std::vector<WorkloadSample> samples{sample};
  baseline.apply(samples);
  return samples[0].growth;
}

TEST(GrowthBaselineTest, WithoutFiguresThereIsNoGrowth) {
  GrowthBaseline baseline;
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(5))), std::nullopt);
  EXPECT_EQ(baseline.taken_at(), std::nullopt);
  baseline.take({}, second(1));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(5))), mib(5)) << "no workload was known";
  baseline.forget();
  EXPECT_EQ(growth_of(baseline, grown(workload("/a", mib(5)), mib(9))), std::nullopt)
      << "the earlier baseline is dropped";
}

TEST(GrowthBaselineTest, GrowthIsTheWorkingSetSinceThen) {
  GrowthBaseline baseline;
  WorkloadSample cached = workload("/cache", mib(100));
  cached.inactive_file = mib(60);
  baseline.take(
      {workload("/b", mib(7)), cached, workload("/unread", std::nullopt), workload("/a", mib(30))},
      second(1));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(34))), mib(4));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(20))), mib(0)) << "it shrank";
  EXPECT_EQ(growth_of(baseline, workload("/b", std::nullopt)), std::nullopt);
  EXPECT_EQ(growth_of(baseline, workload("/unread", mib(9))), std::nullopt);
  EXPECT_EQ(growth_of(baseline, workload("/new", mib(9))), mib(9));
  cached.usage = mib(180);
  cached.inactive_file = mib(135);
  EXPECT_EQ(growth_of(baseline, cached), mib(5)) << "page cache is no growth";
  // The same path, made again: another cgroup.
  WorkloadSample again = workload("/a", mib(31));
  again.workload.cgroup = {12345};
  EXPECT_EQ(growth_of(baseline, again), mib(31));
}

TEST(GrowthBaselineTest, ACgroupsWarningDoesNotAffectOthers) {
  GrowthBaseline baseline;
  baseline.take({workload("/batch/a", mib(10))}, second(1), "/batch");
  EXPECT_EQ(growth_of(baseline, workload("/batch/a", mib(14))), mib(4));
  EXPECT_EQ(growth_of(baseline, workload("/batch/new", mib(3))), mib(3));
  EXPECT_EQ(growth_of(baseline, workload("/web", mib(50))), std::nullopt);
  // Then the node's: the notes of the cgroup stay.
  baseline.take(
      {workload("/batch/a", mib(13)), workload("/batch/new", mib(3)), workload("/web", mib(50))},
      second(2));
  EXPECT_EQ(growth_of(baseline, workload("/batch/a", mib(14))), mib(4));
  EXPECT_EQ(growth_of(baseline, workload("/batch/new", mib(4))), mib(4));
  EXPECT_EQ(growth_of(baseline, workload("/web", mib(51))), mib(1));
  EXPECT_EQ(growth_of(baseline, workload("/late", mib(2))), mib(2));
  baseline.take({workload("/batch/a", mib(14))}, second(3), "/batch");
  EXPECT_EQ(growth_of(baseline, workload("/batch/a", mib(14))), mib(4));
}

TEST(GrowthBaselineTest, TheFirstWarningCountsUntilItIsOver) {
  GrowthBaseline baseline;
  baseline.take_before_warning({workload("/a", mib(10))}, second(1));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(50))), mib(40));
  EXPECT_FALSE(baseline.warned());
  baseline.take({workload("/a", mib(20))}, second(2));
  baseline.take({workload("/a", mib(45))}, second(3));
  EXPECT_TRUE(baseline.warned());
  EXPECT_EQ(baseline.taken_at(), second(2));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(50))), mib(30));
  baseline.take_before_warning({workload("/a", mib(49))}, second(4));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(50))), mib(30)) << "it has grown";
  baseline.forget();
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(50))), mib(1));
  baseline.take({workload("/a", mib(50))}, second(5));
  EXPECT_EQ(growth_of(baseline, workload("/a", mib(52))), mib(2));
}

}  // namespace
}  // namespace forestall::policy
