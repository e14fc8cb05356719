// SPDX-License-Identifier: Apache-2.0
// The texts of an eviction for a threshold.
#include "policy/eviction_notice.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policy/rank.h"
#include "tests/policy/pods.h"

namespace forestall::policy::eviction_notice_test {
namespace {

using Annotations = std::vector<std::pair<std::string, std::string>>;

Evidence met(Signal signal, const Quantity& limit, std::int64_t available) {
  Evidence evidence;
  evidence.threshold.signal = signal;
  evidence.limit = limit;
  evidence.available = available;
  evidence.met = true;
  evidence.driving = true;
  return evidence;
}

Eviction notice(const WorkloadSample& sample, const Evidence& driving,
                const std::vector<Evidence>& evidence = {}) {
  const Candidate victim{
      sample, rank_key(sample, {.signal = driving.threshold.signal, .layout = {}, .compat = {}}),
      Exclusion::none};
  Eviction eviction;
  write_notice(victim, driving, evidence, eviction);
  return eviction;
}

const Evidence kMemory = met(Signal::memory_available, q("100Mi"), mib(99).count);

TEST(EvictionNoticeTest, ACgroupThatIsShortIsNotTheNode) {
  const Pod made = pod("p", {});
  Evidence evidence = met(Signal::cgroup_memory_available, q("96Mi"), mib(95).count);
  evidence.subject = "/batch";
  EXPECT_EQ(notice(sample_of(made, gib(1)), evidence).message,
            "The cgroup /batch was low on resource: memory. "
            "Threshold quantity: 96Mi, available: 95Mi. ");
}

TEST(EvictionNoticeTest, MemoryInFull) {
  const Pod made = pod("p", {container("app", memory("1Gi")), container("calm", memory("1Gi"))},
                       {sidecar("proxy"), container("setup")});
  const auto sample = with_statistics(
      sample_of(made, gib(4)),
      {container_sample("proxy", {}, {}, mib(64)), container_sample("app", {}, {}, mib(1536)),
       container_sample("calm", {}, {}, gib(1)), container_sample("ephemeral", {}, {}, gib(1)),
       container_sample("setup", {}, {}, {})});
  const Eviction eviction = notice(sample, kMemory);
  EXPECT_EQ(eviction.message,
            "The node was low on resource: memory. "
            "Threshold quantity: 100Mi, available: 99Mi. "
            "Container proxy was using 64Mi, request is 0, has larger consumption of memory. "
            "Container app was using 1536Mi, request is 1Gi, has larger consumption of memory. ");
  EXPECT_EQ(eviction.annotations, (Annotations{{"offending_containers", "proxy,app"},
                                               {"offending_containers_usage", "64Mi,1536Mi"},
                                               {"starved_resource", "memory"}}));
  EXPECT_EQ(eviction.metric_signal, "memory.available");
  EXPECT_TRUE(eviction.disruption_target);
}

TEST(EvictionNoticeTest, QuantitiesPrintInTheirResourcesFormat) {
  struct Case {
    Evidence driving;
    std::string start;
  };
  const Quantity share = Limit::share(0.1F).of(10'000'000);
  const std::vector<Case> cases{
      {met(Signal::memory_available, q("1500M"), 1023),
       "memory. Threshold quantity: 1500M, available: 1023. "},
      {met(Signal::allocatable_memory_available, q("1Gi"), -1024),
       "memory. Threshold quantity: 1Gi, available: -1Ki. "},
      {met(Signal::memory_until_oom, q("1Gi"), 1024),
       "memory. Threshold quantity: 1Gi, available: 1Ki. "},
      {met(Signal::nodefs_available, q("0.5Gi"), gib(1).count / 4),
       "ephemeral-storage. Threshold quantity: 512Mi, available: 256Mi. "},
      {met(Signal::imagefs_inodes_free, share, 2000),
       "inodes. Threshold quantity: " + share.text() + ", available: 2k. "},
      {met(Signal::pid_available, q("4k"), 3072),
       "pids. Threshold quantity: 4k, available: 3072. "},
  };
  for (const Case& one : cases) {
    const Eviction eviction = notice(sample_of(pod("p", {})), one.driving);
    EXPECT_EQ(eviction.message, "The node was low on resource: " + one.start);
    EXPECT_EQ(eviction.metric_signal, to_string(one.driving.threshold.signal));
  }
}

TEST(EvictionNoticeTest, TheThresholdIsTheDrivingOne) {
  auto idle = met(Signal::memory_available, q("1Gi"), 5);
  idle.driving = false;
  const auto soft = met(Signal::memory_available, q("2Gi"), 6);
  const auto disk = met(Signal::nodefs_available, q("3Gi"), 7);
  const auto text = [&](const Evidence& driving, const std::vector<Evidence>& evidence) {
    return notice(sample_of(pod("p", {})), driving, evidence).message;
  };
  const std::string low = "The node was low on resource: memory. ";
  EXPECT_EQ(text(kMemory, {soft, kMemory}), low + "Threshold quantity: 100Mi, available: 99Mi. ");
  EXPECT_EQ(text(idle, {disk, idle, soft}), low + "Threshold quantity: 2Gi, available: 6. ");
  EXPECT_EQ(text(idle, {disk, idle}), low);
}

TEST(EvictionNoticeTest, StorageIsRootfsAndLogsWhereBothAreKnown) {
  const Pod made = pod("p", {container("a", storage("1Gi")), container("b"), container("c"),
                             container("d", storage("3Gi"))});
  const auto sample =
      with_statistics(sample_of(made), {container_sample("a", on_disk(gib(1)), on_disk(mib(1))),
                                        container_sample("b", on_disk(gib(1)), {}),
                                        container_sample("c", on_disk({}), on_disk(gib(1))),
                                        container_sample("d", on_disk(gib(2)), on_disk(gib(1)))});
  const Eviction eviction = notice(sample, met(Signal::imagefs_available, q("10Gi"), gib(9).count));
  EXPECT_EQ(eviction.message,
            "The node was low on resource: ephemeral-storage. "
            "Threshold quantity: 10Gi, available: 9Gi. "
            "Container a was using 1025Mi, request is 1Gi, has larger consumption of "
            "ephemeral-storage. ");
  EXPECT_EQ(eviction.annotations, (Annotations{{"offending_containers", "a"},
                                               {"offending_containers_usage", "1025Mi"},
                                               {"starved_resource", "ephemeral-storage"}}));
}

TEST(EvictionNoticeTest, NoContainersForInodesAndPids) {
  const auto sample =
      with_statistics(sample_of(pod("p", {container("a")}), gib(1)),
                      {container_sample("a", on_disk(gib(1), 9), on_disk(gib(1), 9), gib(1))});
  for (const Signal signal : {Signal::nodefs_inodes_free, Signal::pid_available}) {
    const Eviction eviction = notice(sample, met(signal, q("10"), 9));
    const std::string resource(to_string(resource_of(signal)));
    EXPECT_EQ(eviction.message, "The node was low on resource: " + resource +
                                    ". Threshold quantity: 10, available: 9. ");
    EXPECT_EQ(eviction.annotations, (Annotations{{"offending_containers", ""},
                                                 {"offending_containers_usage", ""},
                                                 {"starved_resource", resource}}));
  }
}

TEST(EvictionNoticeTest, ThePodsOwnMemoryRequest) {
  Pod made = pod("web", {container("a", memory("1Mi"))});
  made.requests = memory("2Gi");
  auto sample = with_statistics(sample_of(made, gib(1)), {container_sample("a", {}, {}, mib(2))});
  const Eviction eviction = notice(sample, kMemory);
  EXPECT_EQ(eviction.message,
            "The node was low on resource: memory. "
            "Threshold quantity: 100Mi, available: 99Mi. "
            "Pod web was using 1Gi, request is 2Gi, has larger consumption of memory. "
            "Container a was using 2Mi, request is 1Mi, has larger consumption of memory. ")
      << "the pod's sentence is there even below its request";
  EXPECT_EQ(eviction.annotations, (Annotations{{"offending_containers", "a"},
                                               {"offending_containers_usage", "2Mi"},
                                               {"starved_resource", "memory"},
                                               {"offending_pod", "web"},
                                               {"offending_pod_usage", "1Gi"}}));

  const auto storage_short = notice(sample, met(Signal::nodefs_available, q("1Gi"), 1));
  EXPECT_EQ(storage_short.annotations.size(), 3U) << "memory only";
  made.requests = amounts("1", "");
  EXPECT_EQ(notice(sample_of(made, gib(1)), kMemory).annotations.size(), 3U) << "no memory request";
}

TEST(EvictionNoticeTest, WithoutStatisticsOnlyTheThreshold) {
  const Eviction eviction = notice(sample_of(pod("p", {container("a")}), std::nullopt), kMemory);
  EXPECT_EQ(eviction.message,
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi. ");
  EXPECT_TRUE(eviction.annotations.empty());
  EXPECT_TRUE(eviction.disruption_target);
}

TEST(EvictionNoticeTest, WithoutItsContainersAPodStillHasAnnotations) {
  const Eviction eviction = notice(workload("/system.slice", gib(1)), kMemory);
  EXPECT_EQ(eviction.annotations, (Annotations{{"offending_containers", ""},
                                               {"offending_containers_usage", ""},
                                               {"starved_resource", "memory"}}));
}

}  // namespace
}  // namespace forestall::policy::eviction_notice_test
