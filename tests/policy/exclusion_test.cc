// SPDX-License-Identifier: Apache-2.0
// Which workloads are skipped, and why.
#include "policy/exclusion.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

struct Case {
  std::string name;
  WorkloadSample candidate;
  std::vector<WorkloadSample> others;
  std::vector<KillProgress> kills;
  Exclusion exclusion;
};

void check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    std::vector<WorkloadSample> workloads = one.others;
    workloads.push_back(one.candidate);
    EXPECT_EQ(Exclusions(workloads, one.kills).of(one.candidate), one.exclusion) << one.name;
  }
}

TEST(ExclusionTest, Protection) {
  const auto plain = workload("/a", mib(1));
  std::vector<Case> cases{
      {"no reason to exclude it", plain, {}, {}, Exclusion::none},
      {"priority below critical", workload("/a", mib(1), 1'999'999'999), {}, {}, Exclusion::none},
      {"critical priority", workload("/a", mib(1), 2'000'000'000), {}, {}, Exclusion::is_protected},
      {"protected even while being killed",
       with_protection(plain, Protection::declared),
       {},
       {kill("/a", mib(1))},
       Exclusion::is_protected},
  };
  for (const auto protection : {Protection::declared, Protection::critical, Protection::static_pod,
                                Protection::own_cgroup, Protection::init_cgroup}) {
    cases.push_back({std::string(to_string(protection)),
                     with_protection(plain, protection),
                     {},
                     {},
                     Exclusion::is_protected});
  }
  check(cases);
}

WorkloadSample inferred_pod(std::optional<std::int32_t> oom_score_adj, QosClass qos) {
  WorkloadSample sample = as_pod(workload("/kubepods/p", mib(1)));
  sample.workload.inferred = InferredFacts{qos, oom_score_adj, {}};
  return sample;
}

// Kubelet gives -997 to system-node-critical and Guaranteed pods, 3 to 1000 to others.
TEST(ExclusionTest, APodOfUnknownPriorityThatMayBeCriticalIsProtected) {
  std::vector<Case> cases;
  for (const QosClass qos : {QosClass::guaranteed, QosClass::burstable, QosClass::best_effort}) {
    for (const auto value : std::vector<std::optional<std::int32_t>>{std::nullopt, -1000, -999,
                                                                     -998, -997, 0, 2, 1001}) {
      cases.push_back(
          {"may be critical", inferred_pod(value, qos), {}, {}, Exclusion::is_protected});
    }
    for (const std::int32_t value : {3, 500, 999, 1000}) {
      cases.push_back(
          {"cannot be node-critical", inferred_pod(value, qos), {}, {}, Exclusion::none});
    }
  }
  WorkloadSample declared = inferred_pod(-997, QosClass::guaranteed);
  declared.workload.priority = 0;
  cases.push_back({"a declared priority decides", declared, {}, {}, Exclusion::none});
  declared = inferred_pod(1000, QosClass::best_effort);
  declared.workload.priority = 2'000'000'000;
  cases.push_back({"a declared critical priority", declared, {}, {}, Exclusion::is_protected});
  check(cases);
  EXPECT_EQ(protection_of(cases.front().candidate.workload), Protection::may_be_critical);
}

TEST(ExclusionTest, ProtectionAmongNestedWorkloads) {
  const auto at = [](const std::string& path, Protection protection) {
    return with_protection(workload(path, mib(1)), protection);
  };
  check({
      {"a protected workload inside",
       workload("/a", mib(1)),
       {at("/a/b/c", Protection::declared)},
       {},
       Exclusion::is_protected},
      {"the agent lives inside",
       workload("/a", mib(1)),
       {at("/a/b", Protection::own_cgroup)},
       {},
       Exclusion::is_protected},
      {"a critical workload inside, by priority",
       workload("/a", mib(1)),
       {workload("/a/b", mib(1), 2'000'001'000)},
       {},
       Exclusion::is_protected},
      {"part of a declared one",
       workload("/a/b/c", mib(1)),
       {at("/a", Protection::declared)},
       {},
       Exclusion::is_protected},
      {"part of a static pod",
       workload("/a/b", mib(1)),
       {at("/a", Protection::static_pod)},
       {},
       Exclusion::is_protected},
      {"beside the agent under one slice",
       workload("/a/b", mib(1)),
       {at("/a", Protection::own_cgroup)},
       {},
       Exclusion::none},
      {"below the root where pid 1 lives",
       workload("/a", mib(1)),
       {at("/", Protection::init_cgroup)},
       {},
       Exclusion::none},
      {"the root itself holds everything",
       workload("/", mib(1)),
       {at("/a", Protection::declared)},
       {},
       Exclusion::is_protected},
      {"a name that only begins alike",
       workload("/ab", mib(1)),
       {at("/a", Protection::declared)},
       {},
       Exclusion::none},
  });
}

TEST(ExclusionTest, KillsUnderWayOrInVain) {
  const auto plain = workload("/a/b", mib(1));
  check({
      {"being killed", plain, {}, {kill("/a/b", mib(1))}, Exclusion::kill_in_flight},
      {"dying with a cgroup around it", plain, {}, {kill("/a", mib(1))}, Exclusion::kill_in_flight},
      {"something inside it is dying", plain, {}, {kill("/a/b/c", mib(1))}, Exclusion::none},
      {"stuck", plain, {}, {kill("/a/b", mib(1), KillState::stuck)}, Exclusion::kill_failed},
      {"failed", plain, {}, {kill("/a/b", mib(1), KillState::failed)}, Exclusion::kill_failed},
      {"released and populated again",
       plain,
       {},
       {kill("/a/b", {0}, KillState::released)},
       Exclusion::none},
      {"in flight again after a failure",
       plain,
       {},
       {kill("/a/b", mib(1), KillState::failed), kill("/a/b", mib(1))},
       Exclusion::kill_in_flight},
  });
  // The kill was of an older cgroup with the same path: the new one is another workload.
  auto recreated = plain;
  recreated.workload.cgroup.inode ^= 0x100;
  check({{"made anew after a failed kill",
          recreated,
          {},
          {kill("/a/b", mib(1), KillState::failed)},
          Exclusion::none},
         {"made anew while the old one dies",
          recreated,
          {},
          {kill("/a/b", mib(1))},
          Exclusion::none}});
}

// A victim in its grace period is a candidate for a hard threshold only.
TEST(ExclusionTest, TheCallerDecidesAboutTerminatingVictims) {
  const std::vector workloads{workload("/a", mib(1)), workload("/a/b", mib(1))};
  const std::vector kills{kill("/a", mib(1), KillState::terminating)};
  for (const WorkloadSample& one : workloads) {
    EXPECT_EQ(Exclusions(workloads, kills).of(one), Exclusion::none);
    EXPECT_EQ(Exclusions(workloads, kills, Terminating::excluded).of(one),
              Exclusion::kill_in_flight);
  }
}

TEST(ExclusionTest, KubernetesMetadataProtectsAPod) {
  const auto protection = [](PodOrigin origin, std::optional<std::int32_t> priority,
                             std::optional<std::int32_t> declared = {}) {
    Pod pod;
    pod.origin = origin;
    pod.priority = priority;
    WorkloadSample sample = workload("/kubepods/a", mib(1), declared);
    sample.workload.pod = std::make_shared<const Pod>(pod);
    return protection_of(sample.workload);
  };
  EXPECT_EQ(protection(PodOrigin::api, {}), Protection::none);
  EXPECT_EQ(protection(PodOrigin::api, 2'000'000'000), Protection::critical);
  EXPECT_EQ(protection(PodOrigin::api, 2'000'000'000, 0), Protection::none) << "declared here";
  EXPECT_EQ(protection(PodOrigin::static_file, {}), Protection::static_pod);
  EXPECT_EQ(protection(PodOrigin::mirror, {}), Protection::static_pod);
}

TEST(ExclusionTest, EmptyIsKnownToHaveNoProcess) {
  const auto plain = workload("/a", mib(1));
  check({{"no processes", with_processes(plain, 0), {}, {}, Exclusion::empty},
         {"one process", with_processes(plain, 1), {}, {}, Exclusion::none},
         {"unknown is not zero", with_processes(plain, std::nullopt), {}, {}, Exclusion::none}});
}

TEST(ProtectionTest, ParentPaths) {
  EXPECT_EQ(parent_path("/a/b"), "/a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "");
  EXPECT_EQ(parent_path(""), "");
  EXPECT_EQ(parent_path("a"), "");
}

}  // namespace
}  // namespace forestall::policy
