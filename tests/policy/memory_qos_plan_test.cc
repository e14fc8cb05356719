// SPDX-License-Identifier: Apache-2.0
// Which cgroups get which value of the agent's own memory QoS, and which values are left alone.
#include "policy/memory_qos_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/policy/pods.h"

namespace forestall::policy {

std::ostream& operator<<(std::ostream& out, const PlannedMemoryQos& planned) {
  return out << planned.path << " " << to_string(planned.file) << " " << planned.value << " for "
             << planned.subject << (planned.left.empty() ? "" : " left: " + planned.left);
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kPlanMi = 1 << 20;
constexpr std::int64_t kPlanGi = 1 << 30;
constexpr const char* kUnknown =
    "unknown whether the kubelet writes it; set kubeletConfig and compat.kubeletVersion";

PodContainer container_with_id(const std::string& name, const std::string& id,
                               const ResourceList& requests, const ResourceList& limits) {
  PodContainer made = container(name, requests, limits);
  made.id = id;
  return made;
}

// A node with a Guaranteed and a Burstable pod, each with a cgroup and a container "app".
struct QosNode {
  QosNode() {
    config.mode = MemoryQosMode::observe;
    config.reservation = MemoryReservation::tiered;
    config.throttling_factor = 0.9;
    config.kubelet_reserves = false;
    config.kubelet_throttles = false;
    add("/kubepods/podg",
        pod("g", {container_with_id("app", "g1", amounts("1", "128Mi"), amounts("1", "128Mi"))}));
    add("/kubepods/burstable/podb",
        pod("b", {container_with_id("app", "b1", memory("256Mi"), memory("512Mi"))}));
    others = {{"/kubepods", {100}}, {"/kubepods/burstable", {101}}};
  }

  void add(const std::string& path, const Pod& facts) {
    pods.push_back(std::make_shared<const Pod>(facts));
    const std::string id = facts.containers.front().id;
    cgroups.push_back({path, {++last}, pods.back(), {{path + "/" + id, {++last}, id}}});
  }
  [[nodiscard]] std::vector<PlannedMemoryQos> plan() const {
    return plan_memory_qos({.config = config,
                            .node_allocatable = allocatable,
                            .page_size = 4096,
                            .pods = pods,
                            .unknown_pods = unknown_pods,
                            .cgroups = cgroups,
                            .others = others});
  }

  MemoryQosConfig config;
  std::int64_t allocatable = 8 * kPlanGi;
  std::vector<std::shared_ptr<const Pod>> pods;
  std::vector<QosPodCgroup> cgroups;
  std::vector<QosOtherCgroup> others;
  std::uint64_t unknown_pods = 0;
  std::uint64_t last = 0;
};

TEST(MemoryQosPlan, HasTheValuesOfTheFormulasForLevelsPodsAndContainers) {
  EXPECT_THAT(
      QosNode().plan(),
      ElementsAre(
          PlannedMemoryQos{"pods", "/kubepods", {100}, MemoryQosFile::min, 384 * kPlanMi},
          PlannedMemoryQos{
              "burstable pods", "/kubepods/burstable", {101}, MemoryQosFile::low, 256 * kPlanMi},
          PlannedMemoryQos{"default/g", "/kubepods/podg", {1}, MemoryQosFile::min, 128 * kPlanMi},
          PlannedMemoryQos{
              "default/g: app", "/kubepods/podg/g1", {2}, MemoryQosFile::min, 128 * kPlanMi},
          PlannedMemoryQos{
              "default/b", "/kubepods/burstable/podb", {3}, MemoryQosFile::low, 256 * kPlanMi},
          PlannedMemoryQos{"default/b: app",
                           "/kubepods/burstable/podb/b1",
                           {4},
                           MemoryQosFile::low,
                           256 * kPlanMi},
          PlannedMemoryQos{"default/b: app",
                           "/kubepods/burstable/podb/b1",
                           {4},
                           MemoryQosFile::high,
                           510025728}));
}

TEST(MemoryQosPlan, ThrottlesOnlyWithAFactorAndProtectsOnlyWithThePolicy) {
  QosNode node;
  node.config.reservation = MemoryReservation::none;
  EXPECT_THAT(
      node.plan(),
      ElementsAre(PlannedMemoryQos{
          "default/b: app", "/kubepods/burstable/podb/b1", {4}, MemoryQosFile::high, 510025728}));
  node.config.throttling_factor.reset();
  EXPECT_THAT(node.plan(), IsEmpty());
}

TEST(MemoryQosPlan, LeavesToTheKubeletWhatItWritesOrMayWrite) {
  const struct {
    std::optional<bool> reserves;
    std::optional<bool> throttles;
    std::string protection;
    std::string high;
  } table[] = {{false, false, "", ""},
               {true, false, "the kubelet writes it", ""},
               {false, true, "", "the kubelet writes it"},
               {std::nullopt, false, kUnknown, ""},
               {false, std::nullopt, "", kUnknown}};
  for (const auto& each : table) {
    QosNode node;
    node.config.kubelet_reserves = each.reserves;
    node.config.kubelet_throttles = each.throttles;
    for (const PlannedMemoryQos& planned : node.plan()) {
      EXPECT_EQ(planned.left, planned.file == MemoryQosFile::high ? each.high : each.protection)
          << planned;
    }
  }
}

// The kernel reads back what it has stored.
TEST(MemoryQosPlan, ValuesAreWholePages) {
  QosNode node;
  MemoryQosCgroup& batch = node.config.cgroups.emplace_back();
  batch.path = "/batch";
  batch.min = Bytes{4095};
  batch.low = Bytes{100'000'000};
  node.others.push_back({"/batch", {102}});
  const auto planned = node.plan();
  ASSERT_FALSE(planned.empty());
  EXPECT_EQ(planned.back(),
            (PlannedMemoryQos{"/batch", "/batch", {102}, MemoryQosFile::low, 99'999'744}));
}

TEST(MemoryQosPlan, LevelsStayAsTheyAreIfAPodIsUnknown) {
  QosNode node;
  node.unknown_pods = 2;
  const auto planned = node.plan();
  ASSERT_GE(planned.size(), 3U);
  EXPECT_EQ(planned[0].left, "what 2 pod(s) request is unknown");
  EXPECT_EQ(planned[1].left, "what 2 pod(s) request is unknown");
  EXPECT_EQ(planned[2].left, "");
}

TEST(MemoryQosPlan, PodsThatDisagreeShowNoLevel) {
  QosNode node;
  node.add("/elsewhere/podc",
           pod("c", {container_with_id("app", "c1", memory("256Mi"), memory("512Mi"))}));
  const QosLevelCgroups levels = qos_level_cgroups(node.cgroups);
  EXPECT_EQ(levels.pods, "/kubepods");
  EXPECT_EQ(levels.burstable, "");
}

// A container without limit is throttled by the node's allocatable memory.
TEST(MemoryQosPlan, AnUnknownAllocatableMemoryThrottlesNothing) {
  QosNode node;
  node.config.reservation = MemoryReservation::none;
  node.pods.clear();
  node.cgroups.clear();
  node.add("/kubepods/burstable/podu",
           pod("u", {container_with_id("app", "u1", memory("100Mi"), {})}));
  ASSERT_EQ(node.plan().size(), 1U);
  EXPECT_EQ(node.plan().front().value, 7741423616);
  node.allocatable = 0;
  EXPECT_THAT(node.plan(), IsEmpty());
}

TEST(MemoryQosPlan, APodWithoutFactsAndAContainerWithoutIdHaveNoValues) {
  QosNode node;
  node.cgroups[0].pod = nullptr;
  Pod unnamed = *node.pods[1];
  unnamed.containers[0].id.clear();
  node.cgroups[1].pod = std::make_shared<const Pod>(unnamed);
  node.cgroups[1].containers[0].id.clear();
  for (const PlannedMemoryQos& each : node.plan()) {
    EXPECT_NE(each.path, "/kubepods/podg");
    EXPECT_NE(each.path, "/kubepods/burstable/podb/b1");
  }
}

TEST(MemoryQosPlan, APodThatHasEndedHasNoValues) {
  QosNode node;
  Pod ended = *node.pods[0];
  ended.phase = PodPhase::succeeded;
  node.pods[0] = node.cgroups[0].pod = std::make_shared<const Pod>(ended);
  for (const PlannedMemoryQos& each : node.plan()) {
    EXPECT_NE(each.cgroup, (CgroupId{1})) << each;
    EXPECT_NE(each.value, 384 * kPlanMi) << each;
  }
}

// Without a Guaranteed pod the level of all pods is the parent of the Burstable ones.
TEST(MemoryQosPlan, FindsTheLevelsFromThePodsThatAreThere) {
  QosNode node;
  node.cgroups.erase(node.cgroups.begin());
  EXPECT_EQ(qos_level_cgroups(node.cgroups).pods, "/kubepods");
  EXPECT_EQ(qos_level_cgroups(node.cgroups).burstable, "/kubepods/burstable");
  node.cgroups.clear();
  EXPECT_EQ(qos_level_cgroups(node.cgroups).pods, "");
  for (const PlannedMemoryQos& each : node.plan()) ADD_FAILURE() << each;
}

TEST(MemoryQosPlan, SingleCgroupsAreWrittenWhateverTheKubeletDoes) {
  QosNode node;
  node.config.kubelet_reserves = std::nullopt;
  node.config.reservation = MemoryReservation::none;
  node.config.throttling_factor.reset();
  node.config.cgroups = {{"/db", Bytes{kPlanGi}, std::nullopt, Bytes{4 * kPlanGi}},
                         {"/gone", Bytes{kPlanGi}, std::nullopt, std::nullopt}};
  node.others.push_back({"/db", {200}});
  EXPECT_THAT(node.plan(),
              ElementsAre(PlannedMemoryQos{"/db", "/db", {200}, MemoryQosFile::min, kPlanGi},
                          PlannedMemoryQos{"/db", "/db", {200}, MemoryQosFile::high, 4 * kPlanGi}));
}

TEST(MemoryQosAllocatable, IsTheCapacityWithoutTheReservations) {
  Reserved kube;
  Reserved system;
  EXPECT_EQ(memory_qos_allocatable({8 * kPlanGi}, kube, system), 8 * kPlanGi);
  kube.memory = q("1Gi");
  system.memory = q("512Mi");
  EXPECT_EQ(memory_qos_allocatable({8 * kPlanGi}, kube, system), 13 * kPlanGi / 2);
  kube.memory = q("9Gi");
  EXPECT_EQ(memory_qos_allocatable({8 * kPlanGi}, kube, system), 0);
}

}  // namespace
}  // namespace forestall::policy
