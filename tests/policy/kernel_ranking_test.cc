// SPDX-License-Identifier: Apache-2.0
// Ranking::kernel: the workload of the process that the kernel would choose is first; without
// points, kubelet's order is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/process.h"
#include "policy/rank.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using testing::ElementsAre;

WorkloadSample scored(WorkloadSample sample, std::optional<Pages> points) {
  sample.scored = true;
  if (points) sample.badness = WorkloadBadness{{100, 1}, *points};
  return sample;
}

RankBy by_kernel(Signal signal = Signal::memory_available) {
  return {.signal = signal, .layout = {}, .compat = {}, .ranking = Ranking::kernel};
}

std::vector<std::string> order(const std::vector<WorkloadSample>& workloads,
                               const RankBy& by = by_kernel(), const Subject& subject = {}) {
  std::vector<std::string> reported;
  for (const Candidate& one : rank(workloads, by, subject, Exclusions(workloads, {}))) {
    std::string text = one.sample.workload.name;
    if (one.key.badness) text += " " + std::to_string(*one.key.badness);
    if (one.exclusion != Exclusion::none) text += " " + std::string(to_string(one.exclusion));
    reported.push_back(text);
  }
  return reported;
}

std::vector<std::string> names(std::span<const RankRule> rules) {
  std::vector<std::string> names;
  for (const RankRule& rule : rules) names.emplace_back(rule.name);
  return names;
}

TEST(KernelRankingTest, HasOneRuleBeforeKubeletsForMemoryOnly) {
  EXPECT_THAT(names(rules_for(Resource::memory, Ranking::kernel)),
              ElementsAre("preference", "kernel-badness", "missing-statistics", "exceeds-request",
                          "priority", "over-request"));
  for (const Resource resource :
       {Resource::ephemeral_storage, Resource::inodes, Resource::pids, Resource::memory}) {
    EXPECT_EQ(names(rules_for(resource)), names(rules_for(resource, Ranking::kubelet)));
    if (resource == Resource::memory) continue;
    EXPECT_EQ(names(rules_for(resource, Ranking::kernel)), names(rules_for(resource)))
        << to_string(resource);
  }
}

TEST(KernelRankingTest, PointsComeBeforeEverythingElse) {
  const std::vector<WorkloadSample> workloads{
      scored(workload("/negative", mib(900), -5), -7),
      scored(workload("/most", mib(1), 1000, gib(1)), 50),
      scored(workload("/unmeasured", std::nullopt), 20),
      scored(workload("/second", mib(2)), 30),
  };
  EXPECT_THAT(order(workloads),
              ElementsAre("most 50", "second 30", "unmeasured 20", "negative -7"));
  EXPECT_THAT(order(workloads, {}), ElementsAre("unmeasured", "negative", "second", "most"))
      << "kubelet's order has no use for points, and its keys have none";
  const auto ranked = rank(workloads, by_kernel(), Subject{}, Exclusions(workloads, {}));
  EXPECT_EQ(deciding_rule(ranked[0].key, ranked[1].key, Resource::memory, Ranking::kernel),
            "kernel-badness");
  EXPECT_TRUE(evicted_before(ranked[0], ranked[2], Resource::memory, Ranking::kernel));
  EXPECT_FALSE(evicted_before(ranked[0], ranked[2], Resource::memory));
}

TEST(KernelRankingTest, KubeletsRulesBreakTies) {
  const std::vector<WorkloadSample> workloads{
      scored(workload("/a", mib(5), 7), 10), scored(workload("/b", mib(5), 3), 10),
      scored(workload("/c", mib(9), 7), 10), scored(workload("/d", mib(5), 7), 10)};
  EXPECT_THAT(order(workloads), ElementsAre("b 10", "c 10", "a 10", "d 10"));
}

TEST(KernelRankingTest, UnchoosableWorkloadsAreUnkillable) {
  auto empty = scored(with_processes(workload("/empty", mib(9)), 0), std::nullopt);
  auto spared =
      with_protection(scored(workload("/spared", mib(9)), std::nullopt), Protection::declared);
  const std::vector<WorkloadSample> workloads{
      scored(workload("/adjusted", mib(9), -9), std::nullopt), empty, spared,
      scored(workload("/small", mib(1)), -900)};
  EXPECT_THAT(order(workloads),
              ElementsAre("small -900", "adjusted unkillable", "empty empty", "spared protected"))
      << "other reasons come first";
  EXPECT_THAT(order(workloads, {}),
              ElementsAre("adjusted", "empty empty", "spared protected", "small"))
      << "kubelet has no such rule";
}

TEST(KernelRankingTest, UnscoredWorkloadsComeLast) {
  std::vector<WorkloadSample> workloads{scored(workload("/a", mib(1)), 40),
                                        scored(workload("/b", mib(2)), -50),
                                        scored(workload("/c", mib(3)), std::nullopt),
                                        workload("/d", mib(9)), workload("/new", std::nullopt)};
  EXPECT_THAT(order(workloads), ElementsAre("a 40", "b -50", "new", "d", "c unkillable"));
  for (WorkloadSample& one : workloads) one.scored = false;
  EXPECT_THAT(order(workloads), ElementsAre("new", "d", "c", "b", "a"))
      << "the scan failed: kubelet's order";
}

TEST(KernelRankingTest, OtherResourcesKeepKubeletsOrder) {
  const std::vector<WorkloadSample> workloads{
      scored(with_processes(workload("/few", mib(1)), 2), 50),
      scored(with_processes(workload("/many", mib(1)), 9), std::nullopt)};
  EXPECT_THAT(order(workloads, by_kernel(Signal::pid_available)), ElementsAre("many", "few"));
  EXPECT_THAT(order(workloads, by_kernel(Signal::cgroup_memory_available)),
              ElementsAre("few 50", "many unkillable"));
  EXPECT_THAT(order(workloads, by_kernel(Signal::allocatable_memory_available)),
              ElementsAre("few 50", "many unkillable"));
}

TEST(KernelRankingTest, TheStepUsesThisRanking) {
  Config config = policy::config({hard(Signal::memory_available, mib(100))});
  Observation observation;
  observation.at = second(1);
  observation.node = node(gib(1), mib(50));
  observation.workloads = {scored(workload("/large", mib(500)), 10),
                           scored(workload("/adjusted", mib(1)), 900),
                           scored(workload("/never", mib(200)), std::nullopt)};
  EXPECT_EQ(reported(step(config, {}, observation).decision), "kill /large for node");
  config.ranking = Ranking::kernel;
  EXPECT_EQ(reported(step(config, {}, observation).decision), "kill /adjusted for node");
  observation.workloads->erase(observation.workloads->begin(), observation.workloads->begin() + 2);
  EXPECT_EQ(reported(step(config, {}, observation).decision), "none for node: all-protected");
}

}  // namespace
}  // namespace forestall::policy
