// SPDX-License-Identifier: Apache-2.0
// Memory QoS. The source of each row is named: KEP-2570 (its text and its examples), or the
// function of kubelet that computes the value.
#include "policy/memory_qos.h"

#include <gtest/gtest.h>

#include <ostream>

#include "tests/policy/pods.h"

namespace forestall::policy {

std::ostream& operator<<(std::ostream& out, const MemoryProtection& value) {
  return out << "min " << value.min.value_or(-1) << " low " << value.low.value_or(-1);
}

namespace {

constexpr std::int64_t kMi = 1 << 20;
constexpr std::int64_t kGi = 1 << 30;
constexpr auto kNothing = std::nullopt;
using Amount = std::optional<std::int64_t>;

MemoryQosSettings kubelet(int minor, MemoryReservation reservation = MemoryReservation::none) {
  MemoryQosSettings settings;
  settings.kubelet_minor = minor;
  settings.reservation = reservation;
  settings.throttling_factor = default_throttling_factor(minor);
  settings.node_allocatable = 8 * kGi;
  return settings;
}

MemoryQosSettings with_factor(MemoryQosSettings settings, double factor) {
  settings.throttling_factor = factor;
  return settings;
}

MemoryQosSettings tiered(int minor = 36) {
  return kubelet(minor, MemoryReservation::tiered);
}

Pod guaranteed(const std::string& amount) {
  return pod("guaranteed", {container("a", amounts("1", amount), amounts("1", amount))});
}

Pod burstable(const std::string& request, const std::string& limit = "") {
  return pod("burstable", {container("a", memory(request), memory(limit))});
}

Pod burstable_by_cpu() {
  return pod("cpu", {container("a", amounts("1", ""))});
}

Pod best_effort() {
  return pod("best-effort", {container("a")});
}

struct HighRow {
  const char* source;
  std::int64_t request;
  std::int64_t limit;
  MemoryQosSettings settings;
  Amount high;
};

TEST(MemoryHigh, FollowsKubeletsFormulas) {
  const MemoryQosSettings old = kubelet(26);
  const MemoryQosSettings now = with_factor(kubelet(37), 0.9);
  MemoryQosSettings large_pages = kubelet(36);
  large_pages.page_size = 65536;
  MemoryQosSettings unknown = kubelet(36);
  unknown.node_allocatable = 0;
  const HighRow rows[] = {
      {"KEP-2570, 1.27: request 128Mi, limit 256Mi", 128 * kMi, 256 * kMi, kubelet(36), 255012864},
      {"KEP-2570, 1.27: request 256Mi, limit 512Mi", 256 * kMi, 512 * kMi, kubelet(27), 510025728},
      {"KEP-2570: no limit, allocatable 8Gi", 100 * kMi, 0, kubelet(36), 7741423616},
      {"KEP-2570: no request", 0, 200 * kMi, kubelet(36), 188743680},
      {"KEP-2570: limit equals request", kGi, kGi, kubelet(36), kNothing},
      {"generateLinuxContainerResources() before 1.37: 0 equals 0", 0, 0, kubelet(36), kNothing},
      {"generateLinuxContainerResources() 1.37: BestEffort", 0, 0, now, 7730937856},
      {"SetDefaults_KubeletConfiguration() 1.37: no factor", 128 * kMi, 256 * kMi, kubelet(37),
       kNothing},
      {"KEP-2570, worked: factor 0.6, request 500Mi", 500 * kMi, 1000 * kMi,
       with_factor(kubelet(36), 0.6), 800 * kMi},
      {"KEP-2570, worked: factor 0.6, request 800Mi", 800 * kMi, 1000 * kMi,
       with_factor(kubelet(36), 0.6), 920 * kMi},
      {"KEP-2570, worked: factor 0.8, request 850Mi", 850 * kMi, 1000 * kMi,
       with_factor(kubelet(36), 0.8), 970 * kMi},
      {"KEP-2570, worked: factor 0.4, request 500Mi", 500 * kMi, 1000 * kMi,
       with_factor(kubelet(36), 0.4), 700 * kMi},
      {"KEP-2570: factor 1 is the limit in whole pages", kMi, 2 * kMi + 5,
       with_factor(kubelet(36), 1), 2 * kMi},
      {"generateLinuxContainerResources(): not above the request", 4095, 4097, kubelet(36), 4096},
      {"generateLinuxContainerResources(): not above the request", 4096, 5000, kubelet(36),
       kNothing},
      {"generateLinuxContainerResources(): unknown allocatable", 100 * kMi, 0, unknown, kNothing},
      {"KEP-2570: the page is the system's", 128 * kMi, 256 * kMi, large_pages, 255000576},
      {"1.22: factor 0.8 of the limit, not in pages", 0, 1001, old, 800},
      {"1.22: factor 0.8 of the limit", 100 * kMi, 256 * kMi, old, 214748364},
      {"1.22: not above the request", 900, 1000, old, kNothing},
      {"1.22: limit equals request", 1000, 1000, old, kNothing},
      {"1.22: no limit, allocatable 8Gi", 0, 0, old, 6871947673},
      {"no overflow", 1, std::numeric_limits<std::int64_t>::max(), with_factor(kubelet(36), 1),
       std::numeric_limits<std::int64_t>::max() / 4096 * 4096},
  };
  for (const HighRow& row : rows) {
    EXPECT_EQ(memory_high(row.request, row.limit, row.settings), row.high)
        << row.source << ": request " << row.request << ", limit " << row.limit;
  }
}

struct ProtectionRow {
  const char* source;
  Pod pod;
  MemoryQosSettings settings;
  MemoryProtection of_pod;
  MemoryProtection of_container;
};

TEST(MemoryProtection, FollowsClassVersionAndPolicy) {
  constexpr std::int64_t k100 = 100 * kMi;
  const MemoryProtection nothing;
  const ProtectionRow rows[] = {
      {"KEP-2570 until 1.35", guaranteed("100Mi"), kubelet(35), {k100, kNothing}, {k100, kNothing}},
      {"KEP-2570 until 1.35", burstable("100Mi"), kubelet(35), {k100, kNothing}, {k100, kNothing}},
      {"ResourceConfigForPod() until 1.35: 0 is not written", burstable_by_cpu(), kubelet(35),
       nothing, nothing},
      {"KEP-2570 until 1.35", best_effort(), kubelet(35), nothing, nothing},
      {"TestResourceConfigForPodWithEnforceMemoryQoS guaranteed",
       guaranteed("100Mi"),
       tiered(),
       {k100, kNothing},
       {k100, 0}},
      {"TestResourceConfigForPodWithEnforceMemoryQoS burstable-no-limits",
       burstable("100Mi"),
       tiered(),
       {kNothing, k100},
       {0, k100}},
      {"TestResourceConfigForPodWithEnforceMemoryQoS besteffort",
       best_effort(),
       tiered(),
       nothing,
       {0, 0}},
      {"KEP-2570 1.36: a request of 0", burstable_by_cpu(), tiered(), {kNothing, 0}, {0, 0}},
      {"KEP-2570 1.36: None", guaranteed("100Mi"), kubelet(36), {0, 0}, {0, 0}},
      {"KEP-2570 1.36: None", burstable("100Mi"), kubelet(37), {0, 0}, {0, 0}},
      {"KEP-2570 1.36: None", best_effort(), kubelet(36), nothing, {0, 0}},
  };
  for (const ProtectionRow& row : rows) {
    const PodMemoryQos values = memory_qos(row.pod, row.settings);
    EXPECT_EQ(values.protection, row.of_pod) << row.source << ": " << row.pod.name;
    EXPECT_EQ(values.containers.at(0).protection, row.of_container)
        << row.source << ": " << row.pod.name;
  }
}

TEST(MemoryProtection, PodRequestIsTheSchedulers) {
  Pod several = pod("several", {container("a", memory("100Mi")), container("b", memory("50Mi"))},
                    {container("init", memory("400Mi")), sidecar("side", memory("10Mi"))});
  several.overhead = memory("1Mi");
  const PodMemoryQos values = memory_qos(several, tiered());
  EXPECT_EQ(values.protection.low, 401 * kMi);
  EXPECT_EQ(values.containers.at(1).protection.low, 50 * kMi);
  EXPECT_EQ(values.init_containers.at(1).name, "side");
  EXPECT_EQ(values.init_containers.at(1).protection.low, 10 * kMi);
  several.requests = memory("200Mi");
  EXPECT_EQ(memory_qos(several, tiered()).protection.low, 201 * kMi);
}

struct LevelRow {
  const char* source;
  std::vector<Pod> pods;
  MemoryQosSettings settings;
  MemoryQosLevels levels;
};

TEST(MemoryQosLevels, SumTheRequestsOfTheirPods) {
  const std::vector<Pod> pods{guaranteed("128Mi"), burstable("128Mi", "256Mi"), burstable("256Mi"),
                              best_effort()};
  Pod finished = burstable("1Gi");
  finished.phase = PodPhase::succeeded;
  Pod ending = burstable("16Mi");
  ending.phase = PodPhase::failed;
  ending.terminating = true;
  MemoryQosSettings off = tiered(37);
  off.enabled = false;
  MemoryQosSettings off_before = tiered(36);
  off_before.enabled = false;
  const LevelRow rows[] = {
      {"TestQoSContainerCgroup: writes aggregated memory min",
       pods,
       tiered(),
       {{kNothing, 384 * kMi}, 512 * kMi}},
      {"setMemoryQoS() until 1.35", pods, kubelet(35), {{384 * kMi, kNothing}, 512 * kMi}},
      {"setMemoryQoS() until 1.35: 0 is not written", {best_effort()}, kubelet(35), {}},
      {"TestQoSContainerCgroup: writes zero memory min for best effort pod",
       {best_effort()},
       tiered(),
       {{kNothing, 0}, 0}},
      {"TestQoSContainerCgroup: writes zero memory min for burstable pod without memory request",
       {burstable_by_cpu()},
       tiered(),
       {{kNothing, 0}, 0}},
      {"TestQoSContainerCgroup: clears stale memory min when all pods removed",
       {},
       tiered(),
       {{kNothing, 0}, 0}},
      {"TestQoSContainerCgroupWithMemoryReservationPolicyNone",
       pods,
       kubelet(36),
       {{kNothing, 0}, 0}},
      {"activePods(): finished pods do not count",
       {finished, ending},
       tiered(),
       {{kNothing, 16 * kMi}, 16 * kMi}},
      {"enforceNodeAllocatableCgroups() 1.37: a disabled gate resets",
       pods,
       off,
       {{kNothing, 0}, 0}},
      {"before 1.37 a disabled gate writes nothing", pods, off_before, {}},
  };
  for (const LevelRow& row : rows) {
    const MemoryQosLevels levels = memory_qos_levels(row.pods, row.settings);
    EXPECT_EQ(levels.burstable, row.levels.burstable) << row.source;
    EXPECT_EQ(levels.kubepods_min, row.levels.kubepods_min) << row.source;
  }
}

// KEP-2570, rollback from 1.37 on.
TEST(MemoryQos, DisabledGateLiftsTheThrottle) {
  MemoryQosSettings off = tiered(37);
  off.enabled = false;
  const PodMemoryQos values = memory_qos(burstable("100Mi"), off);
  EXPECT_EQ(values.containers.at(0).high, kNoThrottling);
  EXPECT_EQ(values.protection, MemoryProtection{});
  off.kubelet_minor = 36;
  EXPECT_EQ(memory_qos(burstable("100Mi"), off).containers.at(0).high, kNothing);
}

TEST(MemoryQos, FinishedPodsHaveNoCgroup) {
  Pod finished = burstable("100Mi");
  finished.phase = PodPhase::failed;
  const PodMemoryQos values = memory_qos(finished, tiered());
  EXPECT_FALSE(values.active);
  EXPECT_EQ(values.protection, MemoryProtection{});
  EXPECT_EQ(values.containers.at(0).protection, MemoryProtection{});
}

}  // namespace
}  // namespace forestall::policy
