// SPDX-License-Identifier: Apache-2.0
// Pods over their limits on local storage: each limit alone, their order, and spared pods.
#include "policy/storage_limits.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

struct Result {
  std::vector<Candidate> considered;
  std::vector<Eviction> evictions;
};

Result evict(std::vector<WorkloadSample> workloads, const Config& config = {},
             std::optional<FilesystemLayout> layout = FilesystemLayout::single) {
  Observation observation;
  observation.filesystems.layout = layout;
  observation.workloads = std::move(workloads);
  Result result;
  storage_limit_evictions(config, observation, Exclusions(*observation.workloads, {}),
                          result.considered, result.evictions);
  return result;
}

// The message for a single pod; empty if it stays.
std::string message(const WorkloadSample& sample,
                    FilesystemLayout layout = FilesystemLayout::single) {
  const Result result = evict({sample}, {}, layout);
  return result.evictions.empty() ? "" : result.evictions[0].message;
}

WorkloadSample with_empty_dir(const PodVolume& dir, std::optional<Bytes> used,
                              const std::string& name = "p") {
  Pod made = pod(name, {container("c")});
  made.volumes = {dir};
  return with_statistics(sample_of(made), {}, {{.name = dir.name, .usage = on_disk(used)}});
}

TEST(StorageLimitsTest, EmptyDirBeyondItsSizeLimit) {
  const std::string gone = "Usage of EmptyDir volume \"cache\" exceeds the limit \"1Gi\". ";
  EXPECT_EQ(message(with_empty_dir(empty_dir("cache", "1Gi"), gib(1) + Bytes{1})), gone);
  EXPECT_EQ(message(with_empty_dir(empty_dir("cache", "1Gi"), gib(1))), "");
  EXPECT_EQ(message(with_empty_dir(empty_dir("cache", "1Gi"), {})), "") << "usage not known";
  EXPECT_EQ(message(with_empty_dir(empty_dir("cache", "0"), gib(1))), "") << "0 is no limit";
  EXPECT_EQ(message(with_empty_dir(empty_dir("cache"), gib(1))), "");

  PodVolume in_memory = empty_dir("cache", "1Gi");
  in_memory.in_memory = true;
  in_memory.default_medium = false;
  EXPECT_EQ(message(with_empty_dir(in_memory, gib(2))), gone) << "on whatever medium";

  PodVolume other = empty_dir("cache", "1Gi");
  other.kind = VolumeKind::other;
  EXPECT_EQ(message(with_empty_dir(other, gib(2))), "") << "not an emptyDir";
}

TEST(StorageLimitsTest, LimitsPrintAsTheyAreDeclared) {
  EXPECT_EQ(message(with_empty_dir(empty_dir("v", "1500M"), gib(2))),
            "Usage of EmptyDir volume \"v\" exceeds the limit \"1500M\". ");
  EXPECT_EQ(message(with_empty_dir(empty_dir("v", "1.5Gi"), gib(2))),
            "Usage of EmptyDir volume \"v\" exceeds the limit \"1536Mi\". ");
}

WorkloadSample limited(const std::vector<std::pair<std::string, std::string>>& limits,
                       std::vector<ContainerSample> containers) {
  std::vector<PodContainer> declared;
  for (const auto& [name, limit] : limits) declared.push_back(container(name, {}, storage(limit)));
  return with_statistics(sample_of(pod("p", std::move(declared))), std::move(containers));
}

TEST(StorageLimitsTest, PodBeyondTheSumOfItsLimits) {
  const auto with = [](Bytes logs) {
    return limited({{"a", "1Gi"}, {"b", "1Gi"}},
                   {container_sample("a", on_disk(gib(1)), on_disk(Bytes{0})),
                    container_sample("b", on_disk(gib(1)), on_disk(Bytes{0})),
                    container_sample("sidecar", {}, on_disk(logs))});
  };
  EXPECT_EQ(message(with(Bytes{0})), "");
  EXPECT_EQ(message(with(Bytes{1})),
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ");
}

TEST(StorageLimitsTest, ThePodsUsageAsReadCountsBeforeTheSum) {
  auto sample = limited({{"a", "1Gi"}}, {container_sample("a", on_disk(mib(1)), on_disk(mib(1)))});
  EXPECT_EQ(message(sample), "");
  sample.statistics->ephemeral_storage = on_disk(gib(1) + Bytes{1});
  EXPECT_EQ(message(sample),
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ");
}

// A limit of zero is valid for the pod, though not for its container.
TEST(StorageLimitsTest, ALimitOfZeroLimitsThePod) {
  EXPECT_EQ(message(limited({{"a", "0"}}, {container_sample("a", on_disk(Bytes{1}), {})})),
            "Pod ephemeral local storage usage exceeds the total limit of containers 0. ");
  EXPECT_EQ(message(limited({{"a", "0"}}, {container_sample("a", on_disk(Bytes{0}), {})})), "");
  EXPECT_EQ(message(limited({{"a", ""}}, {container_sample("a", on_disk(gib(9)), {})})), "");
}

// Two containers, so that one may exceed its own limit while the pod stays within the sum.
WorkloadSample one_container_over(Bytes rootfs, Bytes logs) {
  return limited({{"a", "1Gi"}, {"b", "9Gi"}},
                 {container_sample("a", on_disk(rootfs), on_disk(logs)),
                  container_sample("b", on_disk(Bytes{0}), on_disk(Bytes{0}))});
}

TEST(StorageLimitsTest, ContainerBeyondItsLimit) {
  const std::string gone = "Container a exceeded its local ephemeral storage limit \"1Gi\". ";
  EXPECT_EQ(message(one_container_over(mib(1000), mib(24))), "");
  EXPECT_EQ(message(one_container_over(mib(1000), mib(25))), gone);
  for (const auto dedicated : {FilesystemLayout::imagefs, FilesystemLayout::split}) {
    EXPECT_EQ(message(one_container_over(gib(2), mib(25)), dedicated), "") << "only its logs";
    EXPECT_EQ(message(one_container_over(gib(2), mib(1025)), dedicated), gone);
  }
  EXPECT_EQ(evict({one_container_over(gib(2), {})}, {}, std::nullopt).evictions.size(), 1U)
      << "an unknown layout counts as single";
}

TEST(StorageLimitsTest, ALimitOfZeroDoesNotLimitItsContainer) {
  EXPECT_EQ(message(limited({{"a", "0"}, {"b", "9Gi"}},
                            {container_sample("a", on_disk(gib(1)), on_disk(gib(1)))})),
            "");
}

TEST(StorageLimitsTest, InitContainersHaveNoLimitOfTheirOwn) {
  Pod made = pod("p", {container("a", {}, storage("9Gi"))}, {sidecar("s", {}, storage("1Gi"))});
  EXPECT_EQ(message(with_statistics(sample_of(made),
                                    {container_sample("s", on_disk(gib(2)), on_disk(gib(2)))})),
            "");
}

TEST(StorageLimitsTest, TheFirstLimitInOrderCounts) {
  Pod made = pod("p", {container("a", {}, storage("1Gi"))});
  made.volumes = {empty_dir("x", "2Gi"), empty_dir("y", "1Mi"), empty_dir("z", "1Mi")};
  auto sample =
      with_statistics(sample_of(made), {container_sample("a", on_disk(gib(2)), on_disk(gib(2)))},
                      {{"z", on_disk(gib(1))}, {"y", on_disk(gib(1))}, {"x", on_disk(gib(1))}});
  auto result = evict({sample});
  ASSERT_EQ(result.evictions.size(), 1U) << "one eviction for a pod";
  EXPECT_EQ(result.evictions[0].message,
            "Usage of EmptyDir volume \"y\" exceeds the limit \"1Mi\". ");
  EXPECT_EQ(result.evictions[0].metric_signal, "emptydirfs.limit");

  sample.statistics->volumes.clear();
  result = evict({sample});
  EXPECT_EQ(result.evictions.at(0).cause, EvictionCause::pod_storage_limit);
  EXPECT_EQ(result.evictions.at(0).metric_signal, "ephemeralpodfs.limit");

  sample.statistics->ephemeral_storage = on_disk(Bytes{0});
  result = evict({sample});
  EXPECT_EQ(result.evictions.at(0).cause, EvictionCause::container_storage_limit);
  EXPECT_EQ(result.evictions.at(0).metric_signal, "ephemeralcontainerfs.limit");
}

TEST(StorageLimitsTest, EvictionMessages) {
  const auto result = evict({with_empty_dir(empty_dir("v", "1Gi"), gib(2))});
  ASSERT_EQ(result.evictions.size(), 1U);
  const Eviction& eviction = result.evictions[0];
  EXPECT_EQ(eviction.candidate, 0U);
  EXPECT_EQ(eviction.cause, EvictionCause::empty_dir_limit);
  EXPECT_EQ(eviction.grace, std::chrono::seconds(1));
  EXPECT_FALSE(eviction.at_once);
  EXPECT_TRUE(eviction.annotations.empty());
  EXPECT_FALSE(eviction.disruption_target);

  Config old;
  old.compat.hard_grace = Duration{0};
  EXPECT_EQ(evict({with_empty_dir(empty_dir("v", "1Gi"), gib(2))}, old).evictions[0].grace,
            Duration{0});
}

// All at once, ordered by path; a pod that must not be killed is listed and skipped.
TEST(StorageLimitsTest, EveryPodBeyondALimit) {
  const auto over = [](const std::string& name) {
    return with_empty_dir(empty_dir("v", "1Mi"), gib(1), name);
  };
  auto critical = with_protection(over("b"), Protection::static_pod);
  const auto result =
      evict({over("c"), critical, with_empty_dir(empty_dir("v", "9Gi"), gib(1), "d"), over("a"),
             workload("/system.slice", gib(9))});
  ASSERT_EQ(result.considered.size(), 3U);
  EXPECT_EQ(result.considered[0].sample.workload.name, "a");
  EXPECT_EQ(result.considered[1].sample.workload.name, "b");
  EXPECT_EQ(result.considered[1].exclusion, Exclusion::is_protected);
  EXPECT_EQ(result.considered[2].sample.workload.name, "c");
  ASSERT_EQ(result.evictions.size(), 2U);
  EXPECT_EQ(result.evictions[0].candidate, 0U);
  EXPECT_EQ(result.evictions[1].candidate, 2U);
}

TEST(StorageLimitsTest, NothingWithoutGroundsToActOn) {
  const auto over = with_empty_dir(empty_dir("v", "1Mi"), gib(1));
  Config off;
  off.local_storage_isolation = false;
  EXPECT_TRUE(evict({over}, off).considered.empty());

  auto unread = over;
  unread.statistics.reset();
  EXPECT_TRUE(evict({unread}).considered.empty());

  auto finished = over;
  Pod ended = *over.workload.pod;
  ended.phase = PodPhase::failed;
  finished.workload.pod = std::make_shared<const Pod>(ended);
  EXPECT_TRUE(evict({finished}).considered.empty());

  auto unknown = over;
  unknown.workload.pod.reset();
  EXPECT_TRUE(evict({unknown}).considered.empty());

  std::vector<Candidate> considered;
  std::vector<Eviction> evictions;
  storage_limit_evictions({}, {}, Exclusions({}, {}), considered, evictions);
  EXPECT_TRUE(considered.empty()) << "workloads not read";
}

}  // namespace
}  // namespace forestall::policy
