// SPDX-License-Identifier: Apache-2.0
// The order of eviction: each rule alone, their precedence, and the documented examples.
#include "policy/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/policy/pods.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using ::testing::ElementsAre;

constexpr RankBy kMemory{};

RankBy by(Signal signal, std::optional<FilesystemLayout> layout = {}) {
  return {.signal = signal, .layout = layout, .compat = {}};
}

constexpr Bytes mb(std::int64_t n) {
  return {n * 1'000'000};
}

std::vector<std::string> order(const std::vector<WorkloadSample>& workloads,
                               const RankBy& rank_by = kMemory, const Subject& subject = {}) {
  std::vector<std::string> names;
  for (const Candidate& one : rank(workloads, rank_by, subject, Exclusions(workloads, {}))) {
    names.push_back(one.sample.workload.name);
  }
  return names;
}

Candidate candidate(const WorkloadSample& sample, const RankBy& rank_by = kMemory) {
  return {sample, rank_key(sample, rank_by), Exclusion::none};
}

struct Case {
  std::string name;
  WorkloadSample first;
  WorkloadSample second;
  std::string rule;
};

void check(const std::vector<Case>& cases, const RankBy& rank_by) {
  const Resource resource = resource_of(rank_by.signal);
  for (const Case& one : cases) {
    const Candidate first = candidate(one.first, rank_by);
    const Candidate second = candidate(one.second, rank_by);
    EXPECT_TRUE(evicted_before(first, second, resource)) << one.name;
    EXPECT_FALSE(evicted_before(second, first, resource)) << one.name;
    EXPECT_EQ(deciding_rule(first.key, second.key, resource), one.rule) << one.name;
  }
}

std::vector<std::string> names_of(Resource resource) {
  std::vector<std::string> names;
  for (const RankRule& rule : rules_for(resource)) names.emplace_back(rule.name);
  return names;
}

// A pod with one container with this disk usage and this request for ephemeral storage.
WorkloadSample on_disk_pod(const std::string& name, const DiskUsage& rootfs,
                           std::optional<std::int32_t> priority = {},
                           const std::string& request = "") {
  Pod made = pod(name, {container("c", storage(request))});
  made.priority = priority;
  return with_statistics(sample_of(made), {container_sample("c", rootfs, {})});
}

WorkloadSample no_statistics(const std::string& name, std::optional<std::int32_t> priority = {},
                             const std::string& request = "") {
  auto sample = on_disk_pod(name, {}, priority, request);
  sample.statistics.reset();
  return sample;
}

// A container that is watched separately: only its pod can be evicted.
WorkloadSample inferred(const std::string& path, Bytes used, Bytes request) {
  WorkloadSample sample = as_pod(workload(path, used));
  sample.workload.inferred = InferredFacts{QosClass::burstable, 900, request};
  return sample;
}

TEST(RankTest, AnUnknownPriorityGoesAfterEveryKnownOne) {
  check({{"the highest priority of a user", workload("/b", mib(2), 1'000'000'000),
          inferred("/a", mib(9), mib(1)), "priority"},
         {"unless only the unknown one exceeds its request", inferred("/b", mib(2), mib(1)),
          workload("/a", mib(2), 0, mib(3)), "exceeds-request"},
         {"two unknown ones", inferred("/b", mib(9), mib(1)), inferred("/a", mib(2), mib(1)),
          "over-request"}},
        kMemory);
}

TEST(RankTest, AnInferredRequestCountsUnlessOneIsDeclared) {
  WorkloadSample sample = inferred("/a", mib(2), mib(3));
  EXPECT_FALSE(rank_key(sample, kMemory).exceeds_request);
  EXPECT_EQ(rank_key(sample, kMemory).request, mib(3).count);
  sample.workload.memory_request = mib(1);
  EXPECT_TRUE(rank_key(sample, kMemory).exceeds_request);
}

// Before and after whatever else is compared, for each resource.
TEST(RankTest, PreferredWorkloadsGoFirstAndAvoidedOnesLast) {
  const auto preferred = [](WorkloadSample sample) {
    return with_preference(std::move(sample), Preference::prefer);
  };
  const auto avoided = [](WorkloadSample sample) {
    return with_preference(std::move(sample), Preference::avoid);
  };
  const std::vector<Case> cases{
      {"prefer precedes unknown usage", preferred(workload("/b", mib(1), 9, mib(5))),
       workload("/a", std::nullopt), "preference"},
      {"prefer precedes a request that is exceeded", preferred(workload("/b", mib(1), 9, mib(5))),
       workload("/a", mib(9), 0), "preference"},
      {"everything precedes avoid", workload("/b", mib(1), 1'000'000'000, mib(5)),
       avoided(workload("/a", std::nullopt, -9)), "preference"},
      {"prefer precedes avoid", preferred(workload("/b", mib(1))), avoided(workload("/a", mib(9))),
       "preference"},
      {"two preferred ones rank by their values", preferred(workload("/b", mib(9))),
       preferred(workload("/a", mib(1))), "over-request"},
      {"two avoided ones too", avoided(workload("/b", mib(9))), avoided(workload("/a", mib(1))),
       "over-request"}};
  check(cases, kMemory);
  check({cases[1], cases[2], cases[3]}, by(Signal::pid_available));
  check({cases[1], cases[2], cases[3]}, by(Signal::nodefs_available, FilesystemLayout::single));
  check({cases[1], cases[2], cases[3]}, by(Signal::nodefs_inodes_free, FilesystemLayout::single));
}

TEST(RankTest, NestedCgroupsBelongToTheirWorkload) {
  const Subject scope{id_of("/pods/a/c"), "/pods/a/c"};
  const std::vector<WorkloadSample> around{workload("/pods", mb(9)), workload("/pods/a", mb(5)),
                                           workload("/pods/b", mb(8))};
  EXPECT_THAT(order(around, kMemory, scope), ElementsAre("a")) << "the innermost around it";
  std::vector<WorkloadSample> with_own = around;
  with_own.push_back(workload("/pods/a/c/w", mb(1)));
  EXPECT_THAT(order(with_own, kMemory, scope), ElementsAre("w"));
  EXPECT_THAT(order({workload("/pods/b", mb(8))}, kMemory, scope), ElementsAre());
}

// The memory example of the Kubernetes documentation (node-pressure-eviction): request / usage.
TEST(RankTest, KubeletsMemoryExample) {
  EXPECT_THAT(order({workload("/A", mb(700)), workload("/B", mb(1900), {}, gib(2)),
                     workload("/C", mb(1800), {}, gib(1)), workload("/D", mb(800), {}, gib(1)),
                     workload("/E", mb(300)), workload("/F", mb(1000), {}, gib(2))}),
              ElementsAre("C", "A", "E", "B", "D", "F"));
}

// The same with the requests in the pods, as in a cluster.
TEST(RankTest, KubeletsMemoryExampleWithPods) {
  const auto with = [](const std::string& name, const std::string& request, Bytes used) {
    return sample_of(pod(name, {container("c", memory(request))}), used);
  };
  EXPECT_THAT(
      order({with("A", "", mb(700)), with("B", "2Gi", mb(1900)), with("C", "1Gi", mb(1800)),
             with("D", "1Gi", mb(800)), with("E", "", mb(300)), with("F", "2Gi", mb(1000))}),
      ElementsAre("C", "A", "E", "B", "D", "F"));
}

// The disk example of the Kubernetes documentation (node-pressure-eviction); QoS classes do not
// matter.
TEST(RankTest, KubeletsDiskExample) {
  const auto with = [](const std::string& name, Bytes used, QosClass qos) {
    auto sample = on_disk_pod(name, on_disk(used));
    Pod classed = *sample.workload.pod;
    classed.status_qos = qos;
    sample.workload.pod = std::make_shared<const Pod>(classed);
    return sample;
  };
  EXPECT_THAT(
      order({with("A", mb(800), QosClass::best_effort), with("B", mb(1300), QosClass::guaranteed),
             with("C", mb(1200), QosClass::burstable), with("D", mb(700), QosClass::burstable),
             with("E", mb(500), QosClass::best_effort), with("F", mb(1000), QosClass::guaranteed)},
            by(Signal::nodefs_available, FilesystemLayout::single)),
      ElementsAre("B", "C", "F", "A", "D", "E"));
}

TEST(RankTest, EachResourceHasItsRules) {
  const auto usage = ElementsAre("preference", "missing-statistics", "exceeds-request", "priority",
                                 "over-request");
  EXPECT_THAT(names_of(Resource::memory), usage);
  EXPECT_THAT(names_of(Resource::ephemeral_storage), usage);
  EXPECT_THAT(names_of(Resource::inodes), usage);
  EXPECT_THAT(names_of(Resource::pids),
              ElementsAre("preference", "priority", "missing-statistics", "processes"));
}

TEST(RankTest, MemoryRulesAndTheirPrecedence) {
  check(
      {
          {"missing statistics go before a huge offender of low priority",
           workload("/z", std::nullopt, 1'000'000), workload("/a", gib(9), -5),
           "missing-statistics"},
          {"of two without statistics the lower priority", workload("/z", std::nullopt, 1),
           workload("/a", std::nullopt, 2), "priority"},
          {"of two without statistics requests do not matter",
           workload("/a", std::nullopt, 1, gib(1)), workload("/b", std::nullopt, 1), "path"},
          {"above its request goes before a lower priority", workload("/z", mib(2), 1000, mib(1)),
           workload("/a", mib(9), -1000, mib(10)), "exceeds-request"},
          {"exactly its request does not exceed", workload("/z", mib(1), 9),
           workload("/a", mib(5), 0, mib(5)), "exceeds-request"},
          {"lower priority goes before a larger excess", workload("/z", mib(2), 1),
           workload("/a", gib(2), 2), "priority"},
          {"no priority is 0: above a negative one", workload("/z", mib(1), -1),
           workload("/a", mib(1)), "priority"},
          {"no priority is 0: below a positive one", workload("/z", mib(1)),
           workload("/a", mib(1), 1), "priority"},
          {"larger excess, not larger usage", workload("/z", mib(50)),
           workload("/a", mib(90), {}, mib(60)), "over-request"},
          {"below the request the smaller gap", workload("/z", mib(5), {}, mib(6)),
           workload("/a", mib(90), {}, mib(100)), "over-request"},
          {"a zero working set without a request is not above it", workload("/z", mib(1)),
           workload("/a", Bytes{0}), "exceeds-request"},
          {"alike in everything: the path", workload("/a", mib(1)), workload("/b", mib(1)), "path"},
      },
      kMemory);
}

TEST(RankTest, AllMemorySignalsRankAlike) {
  const auto sample = workload("/a", mib(5), 3, mib(2));
  for (const Signal signal :
       {Signal::allocatable_memory_available, Signal::cgroup_memory_available}) {
    EXPECT_EQ(rank_key(sample, by(signal)), rank_key(sample, kMemory));
  }
}

TEST(RankTest, StorageRulesAndTheirPrecedence) {
  const auto used = [](std::int64_t n) { return on_disk(mib(n), n); };
  check(
      {
          {"missing statistics first", no_statistics("z", 9), on_disk_pod("a", used(900), -5),
           "missing-statistics"},
          {"of two without the lower priority", no_statistics("z", 1), no_statistics("a", 2),
           "priority"},
          {"statistics without any figure are 0, not missing", no_statistics("z"),
           on_disk_pod("a", {}), "missing-statistics"},
          {"above its request goes before a lower priority", on_disk_pod("z", used(2), 9, "1Mi"),
           on_disk_pod("a", used(90), 0, "100Mi"), "exceeds-request"},
          {"exactly its request does not exceed", on_disk_pod("z", used(1), 9),
           on_disk_pod("a", used(5), 0, "5Mi"), "exceeds-request"},
          {"lower priority before a larger excess", on_disk_pod("z", used(1), 0),
           on_disk_pod("a", used(9), 1), "priority"},
          {"larger excess, not larger usage", on_disk_pod("z", used(50)),
           on_disk_pod("a", used(90), {}, "60Mi"), "over-request"},
          {"alike: the path", on_disk_pod("a", used(5)), on_disk_pod("b", used(5)), "path"},
      },
      by(Signal::nodefs_available, FilesystemLayout::single));
}

TEST(RankTest, InodeRulesAndTheirPrecedence) {
  const auto inodes = [](std::int64_t n) { return on_disk(mib(1), n); };
  const RankBy nodefs = by(Signal::nodefs_inodes_free, FilesystemLayout::single);
  check(
      {
          {"missing statistics first", no_statistics("z", 9), on_disk_pod("a", inodes(900), -5),
           "missing-statistics"},
          {"inodes cannot be requested: any of them exceeds", on_disk_pod("z", inodes(1), 9, "1Gi"),
           on_disk_pod("a", inodes(0), 0), "exceeds-request"},
          {"lower priority before more inodes", on_disk_pod("z", inodes(1), 0),
           on_disk_pod("a", inodes(9), 1), "priority"},
          {"more inodes first", on_disk_pod("z", inodes(9)), on_disk_pod("a", inodes(8)),
           "over-request"},
          {"a request in bytes outweighs them", on_disk_pod("z", inodes(1)),
           on_disk_pod("a", inodes(100'000), {}, "1Mi"), "over-request"},
      },
      nodefs);

  RankBy mended = nodefs;
  mended.compat.inode_rank_subtracts_bytes = false;
  check({{"unless the quirk is off", on_disk_pod("z", inodes(100'000), {}, "1Mi"),
          on_disk_pod("a", inodes(1)), "over-request"}},
        mended);
}

TEST(RankTest, PidRulesAndTheirPrecedence) {
  const auto with = [](const std::string& path, std::optional<std::uint64_t> count,
                       std::optional<std::int32_t> priority = {}) {
    return with_processes(workload(path, gib(1), priority), count);
  };
  check(
      {
          {"lower priority before missing statistics", with("/z", 1, 0), with("/a", {}, 1),
           "priority"},
          {"missing statistics before many processes", with("/z", {}), with("/a", 999),
           "missing-statistics"},
          {"more processes first", with("/z", 3), with("/a", 2), "processes"},
          {"none are fewer than one", with("/z", 1), with("/a", 0), "processes"},
          {"alike: the path", with("/a", 3), with("/b", 3), "path"},
          {"unknown twice: the path", with("/a", {}), with("/b", {}), "path"},
      },
      by(Signal::pid_available));
}

// Neither usage nor request of memory matters.
TEST(RankTest, PidRankingIgnoresRequests) {
  const RankKey key = rank_key(with_processes(workload("/a", std::nullopt, 7, gib(1)), 5),
                               by(Signal::pid_available));
  EXPECT_EQ(key, (RankKey{.measured = true, .exceeds_request = false, .priority = 7, .usage = 5}));
}

TEST(RankTest, KeysContainTheComparedValues) {
  const RankKey key = rank_key(workload("/a", mib(5), 3, mib(2)), kMemory);
  EXPECT_EQ(key, (RankKey{.measured = true,
                          .exceeds_request = true,
                          .priority = 3,
                          .usage = mib(5).count,
                          .request = mib(2).count,
                          .over_request = mib(3).count}));
}

TEST(RankTest, ConfiguredValuesOverrideThePod) {
  Pod made = pod("a", {container("c", memory("4Mi"))});
  made.priority = 5;
  auto sample = sample_of(made, mib(10));
  EXPECT_EQ(rank_key(sample, kMemory).request, mib(4).count);
  EXPECT_EQ(rank_key(sample, kMemory).priority, 5);
  sample.workload.memory_request = mib(1);
  sample.workload.priority = -2;
  EXPECT_EQ(rank_key(sample, kMemory).request, mib(1).count);
  EXPECT_EQ(rank_key(sample, kMemory).priority, -2);
}

TEST(RankTest, AFractionOfAByteIsExceededByAByte) {
  const auto used = [](std::int64_t bytes) {
    return rank_key(sample_of(pod("a", {container("c", memory("100m"))}), Bytes{bytes}), kMemory);
  };
  EXPECT_FALSE(used(0).exceeds_request);
  EXPECT_TRUE(used(1).exceeds_request);
}

TEST(RankTest, EndsOfTheRangeDoNotWrapAround) {
  auto sample = workload("/a", Bytes{0}, {}, Bytes{std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(rank_key(sample, kMemory).over_request, -std::numeric_limits<std::int64_t>::max());
  sample.processes = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(rank_key(sample, by(Signal::pid_available)).usage,
            std::numeric_limits<std::int64_t>::max());
}

// In the split layout no part of a pod is on imagefs.
TEST(RankTest, SplitImagefsRanksByPriorityThenSmallerRequest) {
  const RankBy imagefs = by(Signal::imagefs_available, FilesystemLayout::split);
  check(
      {
          {"usage is 0 for all: priority", on_disk_pod("z", on_disk(mib(1)), 0),
           on_disk_pod("a", on_disk(gib(9)), 1), "priority"},
          {"usage is 0 for all: then nothing", on_disk_pod("a", on_disk(mib(1))),
           on_disk_pod("b", on_disk(gib(9))), "path"},
          {"0 minus the request is more for the smaller request",
           on_disk_pod("z", on_disk(mib(1)), {}, "1Mi"),
           on_disk_pod("a", on_disk(mib(1)), {}, "2Mi"), "over-request"},
          {"without statistics still goes first", no_statistics("z", 9),
           on_disk_pod("a", on_disk(gib(9)), 0), "missing-statistics"},
      },
      imagefs);
}

TEST(RankTest, AnUnknownLayoutRanksAsSingle) {
  const auto sample = on_disk_pod("a", on_disk(mib(3), 7));
  for (const Signal signal : {Signal::nodefs_available, Signal::imagefs_inodes_free}) {
    EXPECT_EQ(rank_key(sample, by(signal)), rank_key(sample, by(signal, FilesystemLayout::single)));
  }
}

TEST(RankTest, OnePathWithTwoIdentitiesIsStillOrdered) {
  auto older = workload("/a", mib(1));
  auto newer = older;
  older.workload.cgroup = {1};
  newer.workload.cgroup = {2};
  EXPECT_TRUE(evicted_before(candidate(older), candidate(newer), Resource::memory));
  EXPECT_FALSE(evicted_before(candidate(newer), candidate(older), Resource::memory));
}

// Observations read from files have neither path nor cgroup.
TEST(RankTest, WithoutACgroupTheNameAndTheUidDecide) {
  auto a = workload("", mib(1));
  a.workload.cgroup = {};
  a.workload.name = "default/a";
  a.workload.pod_uid = "2";
  auto b = a;
  b.workload.name = "default/b";
  b.workload.pod_uid = "1";
  EXPECT_TRUE(evicted_before(candidate(a), candidate(b), Resource::memory));
  b.workload.name = a.workload.name;
  EXPECT_TRUE(evicted_before(candidate(b), candidate(a), Resource::memory));
  EXPECT_FALSE(evicted_before(candidate(a), candidate(b), Resource::memory));
}

TEST(RankTest, HalfAWorkingSetIsNone) {
  auto sample = workload("/a", mib(5));
  sample.inactive_file.reset();
  EXPECT_FALSE(rank_key(sample, kMemory).measured);
  sample = workload("/a", mib(5));
  sample.usage.reset();
  EXPECT_FALSE(rank_key(sample, kMemory).measured);
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
  EXPECT_THAT(order(workloads, kMemory, Subject{id_of("/kubepods"), "/kubepods"}),
              ElementsAre("pod1", "pod2", "kubepods"));
  EXPECT_EQ(order(workloads).size(), workloads.size()) << "the node's are all";
}

TEST(RankTest, ExcludedCandidatesKeepTheirPlace) {
  const std::vector<WorkloadSample> workloads{
      workload("/small", mib(1)), with_protection(workload("/big", mib(9)), Protection::declared)};
  const auto candidates = rank(workloads, kMemory, Subject{}, Exclusions(workloads, {}));
  ASSERT_EQ(candidates.size(), 2U);
  EXPECT_EQ(candidates[0].sample.workload.name, "big");
  EXPECT_EQ(candidates[0].exclusion, Exclusion::is_protected);
  EXPECT_EQ(candidates[1].exclusion, Exclusion::none);
}

TEST(RankTest, FinishedPodsAreNoCandidates) {
  const auto in_phase = [](const std::string& name, PodPhase phase, bool terminating = false) {
    Pod made = pod(name, {container("c")});
    made.phase = phase;
    made.terminating = terminating;
    return sample_of(made, mib(1));
  };
  EXPECT_THAT(order({in_phase("a", PodPhase::failed), in_phase("b", PodPhase::succeeded),
                     in_phase("c", PodPhase::failed, true), in_phase("d", PodPhase::running),
                     in_phase("e", PodPhase::unknown), in_phase("f", PodPhase::pending)}),
              ElementsAre("c", "d", "e", "f"));
}

}  // namespace
}  // namespace forestall::policy
