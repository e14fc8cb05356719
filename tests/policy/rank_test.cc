// SPDX-License-Identifier: Apache-2.0
// The order of eviction: each rule alone, their precedence, and kubelet's published example.
#include "policy/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using ::testing::ElementsAre;

constexpr Bytes mb(std::int64_t n) {
  return {n * 1'000'000};
}

std::vector<std::string> order(const std::vector<WorkloadSample>& workloads,
                               const Subject& subject = {}) {
  std::vector<std::string> names;
  for (const Candidate& one : rank(workloads, subject, Exclusions(workloads, {}))) {
    names.push_back(one.sample.workload.name);
  }
  return names;
}

// kubelet.md §11, the published memory example (request / usage).
TEST(RankTest, KubeletsWorkedExample) {
  EXPECT_THAT(order({workload("/A", mb(700)), workload("/B", mb(1900), {}, gib(2)),
                     workload("/C", mb(1800), {}, gib(1)), workload("/D", mb(800), {}, gib(1)),
                     workload("/E", mb(300)), workload("/F", mb(1000), {}, gib(2))}),
              ElementsAre("C", "A", "E", "B", "D", "F"));
}

TEST(RankTest, EachRuleAndItsPrecedence) {
  struct Case {
    std::string name;
    WorkloadSample first;
    WorkloadSample second;
    std::string rule;
  };
  const std::vector<Case> cases{
      {"missing statistics go before a huge offender of low priority",
       workload("/z", std::nullopt, 1'000'000), workload("/a", gib(9), -5), "missing-statistics"},
      {"of two without statistics the lower priority", workload("/z", std::nullopt, 1),
       workload("/a", std::nullopt, 2), "priority"},
      {"of two without statistics requests do not matter", workload("/a", std::nullopt, 1, gib(1)),
       workload("/b", std::nullopt, 1), "path"},
      {"above its request goes before a lower priority", workload("/z", mib(2), 1000, mib(1)),
       workload("/a", mib(9), -1000, mib(10)), "exceeds-request"},
      {"exactly its request does not exceed", workload("/z", mib(1), 9),
       workload("/a", mib(5), 0, mib(5)), "exceeds-request"},
      {"lower priority goes before a larger excess", workload("/z", mib(2), 1),
       workload("/a", gib(2), 2), "priority"},
      {"no priority is 0: above a negative one", workload("/z", mib(1), -1), workload("/a", mib(1)),
       "priority"},
      {"no priority is 0: below a positive one", workload("/z", mib(1)), workload("/a", mib(1), 1),
       "priority"},
      {"larger excess, not larger usage", workload("/z", mib(50)),
       workload("/a", mib(90), {}, mib(60)), "over-request"},
      {"below the request the smaller gap", workload("/z", mib(5), {}, mib(6)),
       workload("/a", mib(90), {}, mib(100)), "over-request"},
      {"a zero working set without a request is not above it", workload("/z", mib(1)),
       workload("/a", Bytes{0}), "exceeds-request"},
      {"alike in everything: the path", workload("/a", mib(1)), workload("/b", mib(1)), "path"},
  };
  for (const Case& one : cases) {
    const Candidate first{one.first, rank_key(one.first), Exclusion::none};
    const Candidate second{one.second, rank_key(one.second), Exclusion::none};
    EXPECT_TRUE(evicted_before(first, second)) << one.name;
    EXPECT_FALSE(evicted_before(second, first)) << one.name;
    EXPECT_EQ(deciding_rule(first.key, second.key), one.rule) << one.name;
  }
}

TEST(RankTest, OnePathWithTwoIdentitiesIsStillOrdered) {
  auto older = workload("/a", mib(1));
  auto newer = older;
  older.workload.cgroup = {1};
  newer.workload.cgroup = {2};
  const Candidate a{older, rank_key(older), Exclusion::none};
  const Candidate b{newer, rank_key(newer), Exclusion::none};
  EXPECT_TRUE(evicted_before(a, b));
  EXPECT_FALSE(evicted_before(b, a));
}

TEST(RankTest, HalfAWorkingSetIsNone) {
  auto sample = workload("/a", mib(5));
  sample.inactive_file.reset();
  EXPECT_FALSE(rank_key(sample).measured);
  sample = workload("/a", mib(5));
  sample.usage.reset();
  EXPECT_FALSE(rank_key(sample).measured);
}

TEST(RankTest, InactiveFilePagesDoNotCount) {
  auto cache = workload("/cache", gib(4));
  cache.inactive_file = gib(4) - mib(10);
  EXPECT_THAT(order({cache, workload("/leak", mib(20))}), ElementsAre("leak", "cache"));
}

TEST(RankTest, CandidatesLieAtOrBelowTheSubject) {
  const std::vector<WorkloadSample> workloads{
      workload("/kubepods/pod1", mib(4)), workload("/kubepods/burstable/pod2", mib(3)),
      workload("/kubepodsX/pod3", mib(9)), workload("/system.slice/ssh", mib(9)),
      workload("/kubepods", mib(1))};
  EXPECT_THAT(order(workloads, Subject{id_of("/kubepods"), "/kubepods"}),
              ElementsAre("pod1", "pod2", "kubepods"));
  EXPECT_EQ(order(workloads).size(), workloads.size()) << "the node's are all";
}

TEST(RankTest, ExcludedCandidatesKeepTheirPlace) {
  const std::vector<WorkloadSample> workloads{
      workload("/small", mib(1)), with_protection(workload("/big", mib(9)), Protection::declared)};
  const auto candidates = rank(workloads, Subject{}, Exclusions(workloads, {}));
  ASSERT_EQ(candidates.size(), 2U);
  EXPECT_EQ(candidates[0].sample.workload.name, "big");
  EXPECT_EQ(candidates[0].exclusion, Exclusion::is_protected);
  EXPECT_EQ(candidates[1].exclusion, Exclusion::none);
}

}  // namespace
}  // namespace forestall::policy
