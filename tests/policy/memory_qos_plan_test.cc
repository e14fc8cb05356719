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
                            .min_limit = min_limit,
                            .min_of_others = min_of_others,
                            .present_min = present_min,
                            .page_size = 4096,
                            .pods = pods,
                            .cgroups = cgroups,
                            .others = others});
  }

  MemoryQosConfig config;
  std::int64_t allocatable = 8 * kPlanGi;
  std::vector<std::shared_ptr<const Pod>> pods;
  std::vector<QosPodCgroup> cgroups;
  std::vector<QosOtherCgroup> others;
  std::int64_t min_limit = 8 * kPlanGi;
  std::optional<std::int64_t> min_of_others = 0;
  std::vector<MemoryQosPresentMin> present_min;
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

// The kernel would kill other processes to keep more than the node can do without.
TEST(MemoryQosPlan, MemoryMinOfAllPodsIsAtMostWhatTheNodeHasToGuarantee) {
  QosNode node;
  node.min_limit = 320 * kPlanMi;
  node.min_of_others = 20 * kPlanMi;
  const auto planned = node.plan();
  EXPECT_EQ(planned.at(0).value, 300 * kPlanMi) << "limits every pod below";
  EXPECT_EQ(planned.at(0).left, "");
  EXPECT_EQ(planned.at(0).note,
            "the pods request 402653184, of which the node has 314572800 to guarantee");
  EXPECT_EQ(planned.at(2).value, 128 * kPlanMi);
  node.min_of_others = 320 * kPlanMi;
  EXPECT_THAT(node.plan().at(0).left, testing::HasSubstr("the node has 0 to guarantee"));
}

TEST(MemoryQosPlan, WithoutTheMemoryOfTheNodeThereIsNoMemoryMin) {
  QosNode node;
  node.min_limit = 0;
  for (const PlannedMemoryQos& each : node.plan()) {
    EXPECT_EQ(each.left, each.file == MemoryQosFile::min ? "the memory of the node is unknown" : "")
        << each;
  }
}

// An unknown sum is not 0: the node would promise more than it has.
TEST(MemoryQosPlan, WithoutTheMemoryMinOfOtherCgroupsThereIsNone) {
  QosNode node;
  node.config.cgroups = {{"/db", Bytes{kPlanGi}, Bytes{kPlanGi}, std::nullopt}};
  node.others.push_back({"/db", {200}});
  node.min_of_others.reset();
  std::size_t mins = 0;
  for (const PlannedMemoryQos& each : node.plan()) {
    const bool is_min = each.file == MemoryQosFile::min;
    mins += is_min;
    EXPECT_EQ(each.left, is_min ? "memory.min of other cgroups cannot be read" : "") << each;
    EXPECT_EQ(each.note, "") << each;
  }
  EXPECT_EQ(mins, 4U) << "all pods, a pod, its container, a single cgroup";
}

// A memory.min whose parents are unknown would be limited by nothing.
TEST(MemoryQosPlan, WithoutTheCgroupOfAllPodsTheirMemoryMinStays) {
  QosNode node;
  node.add("/elsewhere/podg2",
           pod("g2", {container_with_id("app", "g2", amounts("1", "1Gi"), amounts("1", "1Gi"))}));
  ASSERT_EQ(qos_level_cgroups(node.cgroups).pods, "/kubepods")
      << "the parent of the Burstable level";
  for (const PlannedMemoryQos& each : node.plan()) {
    const bool is_outside = each.path.starts_with("/elsewhere");
    EXPECT_EQ(each.left, is_outside ? "it is not below the cgroup of all pods" : "") << each;
  }
  std::erase_if(node.cgroups,
                [](const QosPodCgroup& each) { return each.path.ends_with("/podb"); });
  ASSERT_EQ(qos_level_cgroups(node.cgroups).pods, "");
  for (const PlannedMemoryQos& each : node.plan()) {
    EXPECT_EQ(each.left, each.file == MemoryQosFile::min ? "the cgroup of all pods is unknown" : "")
        << each;
  }
}

TEST(MemoryQosPlan, EnforceMayWriteMemoryHigh) {
  QosNode node;
  node.config.mode = MemoryQosMode::enforce;
  const auto planned = node.plan();
  EXPECT_TRUE(std::ranges::any_of(planned, [](const PlannedMemoryQos& each) {
    return each.file == MemoryQosFile::high && each.left.empty();
  }));
  node.config.kubelet_throttles = std::nullopt;
  for (const PlannedMemoryQos& each : node.plan()) {
    const bool of_pod = each.file == MemoryQosFile::high && each.path.starts_with("/kubepods");
    EXPECT_EQ(each.left.starts_with("unknown whether the kubelet writes it"), of_pod) << each;
  }
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

// It is known under the hash that names its cgroup too (model/api_pod.h).
TEST(MemoryQosPlan, TheMirrorPodOfAStaticPodDoesNotCountInTheLevels) {
  QosNode node;
  Pod fact = pod("static", {container("app", memory("256Mi"), memory("512Mi"))});
  fact.name = "static";
  fact.uid = fact.config_hash = "5a7c3d9e1f2b4a6c8d0e2f4a6b8c0d1e";
  fact.origin = PodOrigin::static_file;
  node.pods.push_back(std::make_shared<const Pod>(fact));
  const auto once = node.plan();
  Pod mirror = fact;
  mirror.uid = "7d1e0001-3c41-4b6e-9d0a-5f2e7c1a0001";
  mirror.config_hash.clear();
  mirror.origin = PodOrigin::api;
  node.pods.push_back(std::make_shared<const Pod>(mirror));
  EXPECT_EQ(node.plan(), once);
  // A tenant's pod that claims to be a mirror pod: its own cgroup counts.
  node.cgroups.push_back({"/kubepods/burstable/podm", {++node.last}, node.pods.back(), {}});
  const auto levels = [](const std::vector<PlannedMemoryQos>& plan) {
    std::vector<std::int64_t> values;
    for (const PlannedMemoryQos& each : plan) {
      if (each.path == "/kubepods" || each.path == "/kubepods/burstable") {
        values.push_back(each.value);
      }
    }
    return values;
  };
  EXPECT_EQ(levels(node.plan()), levels(once));
  node.pods.erase(node.pods.end() - 2, node.pods.end());
  node.cgroups.pop_back();
  EXPECT_NE(levels(node.plan()), levels(once)) << "without either";
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

// What kubelet writes is left to it also where the agent's configuration names the cgroup.
TEST(MemoryQosPlan, SingleCgroupsOfPodsFollowTheKubeletAndHaveOneValue) {
  QosNode node;
  node.config.cgroups = {{"/kubepods/podg", Bytes{kPlanGi}, Bytes{kPlanGi}, std::nullopt}};
  node.others.push_back({"/kubepods/podg", {1}});
  auto planned = node.plan();
  ASSERT_GE(planned.size(), 2U);
  EXPECT_EQ(planned[planned.size() - 2].left, "it has the value of default/g");
  EXPECT_EQ(planned.back().left, "") << "memory.low of a Guaranteed pod is not planned";
  node.config.kubelet_reserves = true;
  planned = node.plan();
  EXPECT_EQ(planned[planned.size() - 2].left, "the kubelet writes it");
  EXPECT_EQ(planned.back().left, "the kubelet writes it");
}

TEST(MemoryQosPlan, SingleCgroupsAndPodsShareWhatTheNodeHasToGuarantee) {
  QosNode node;
  node.others.push_back({"/db", {200}});
  node.others.push_back({"/db/wal", {201}});
  node.config.cgroups = {{"/db", Bytes{kPlanGi}, std::nullopt, std::nullopt},
                         {"/db/wal", Bytes{kPlanGi}, std::nullopt, std::nullopt}};
  node.min_limit = kPlanGi + 100 * kPlanMi;
  auto planned = node.plan();
  EXPECT_EQ(planned.front().value, 100 * kPlanMi) << "/db/wal is limited by /db";
  EXPECT_EQ(planned.back().left, "");
  node.min_limit = kPlanGi - 4096;
  planned = node.plan();
  EXPECT_EQ(planned.front().value, 384 * kPlanMi);
  EXPECT_THAT(planned.back().left,
              testing::HasSubstr("a memory.min of 1073741824, of which the node has 1073737728"));
}

// The value above the pods is what limits them, and is not counted twice.
TEST(MemoryQosPlan, ASingleCgroupAboveThePodsLimitsThem) {
  QosNode node;
  for (QosPodCgroup& each : node.cgroups) each.path = "/nodes" + each.path;
  for (QosOtherCgroup& each : node.others) each.path = "/nodes" + each.path;
  node.others.push_back({"/nodes", {200}});
  node.config.cgroups = {{"/nodes", Bytes{kPlanGi}, std::nullopt, std::nullopt}};
  node.min_limit = kPlanGi;
  const auto planned = node.plan();
  EXPECT_EQ(planned.front().value, 384 * kPlanMi);
  EXPECT_EQ(planned.back().value, kPlanGi);
  EXPECT_EQ(planned.back().left, "");
}

// Another process has given the cgroup more than is configured, and the agent leaves that.
TEST(MemoryQosPlan, ASingleCgroupThatStaysCountsWithWhatIsPresent) {
  QosNode node;
  node.others.push_back({"/db", {200}});
  node.others.push_back({"/cache", {201}});
  node.config.cgroups = {{"/db", Bytes{kPlanGi}, std::nullopt, std::nullopt},
                         {"/cache", Bytes{kPlanGi}, std::nullopt, std::nullopt}};
  node.present_min = {{"/db", 6 * kPlanGi, true}, {"/cache", 5 * kPlanGi, false}};
  node.min_limit = 7 * kPlanGi + 100 * kPlanMi;
  auto planned = node.plan();
  EXPECT_EQ(planned.front().value, 100 * kPlanMi) << "after 6 Gi and 1 Gi";
  EXPECT_EQ(planned.back().left, "") << "the agent replaces the 5 Gi";
  node.min_limit = 6 * kPlanGi + 100 * kPlanMi;
  planned = node.plan();
  const PlannedMemoryQos& db = planned[planned.size() - 2];
  EXPECT_EQ(db.path, "/db");
  EXPECT_EQ(db.left, "") << "it stays, so that it need not be left for this";
  EXPECT_EQ(db.value, kPlanGi);
  EXPECT_THAT(planned.back().left, testing::HasSubstr("the node has 104857600 to guarantee"));
  node.present_min[0].amount = kPlanGi / 2;
  node.min_limit = 2 * kPlanGi + 100 * kPlanMi;
  EXPECT_EQ(node.plan().front().value, 100 * kPlanMi) << "the agent may write it again";
}

TEST(MemoryQosPlan, ASingleCgroupThatIsTooMuchCountsWithWhatIsPresent) {
  QosNode node;
  node.others.push_back({"/db", {200}});
  node.config.cgroups = {{"/db", Bytes{9 * kPlanGi}, std::nullopt, std::nullopt}};
  node.present_min = {{"/db", 8 * kPlanGi - 100 * kPlanMi, false}};
  const auto planned = node.plan();
  EXPECT_EQ(planned.front().value, 100 * kPlanMi);
  EXPECT_THAT(planned.back().left, testing::HasSubstr("the node has 8589934592 to guarantee"));
}

TEST(MemoryQosPlan, PodsThatKeepWhatIsPresentLeaveLessToSingleCgroups) {
  QosNode node;
  node.others.push_back({"/db", {200}});
  node.config.cgroups = {{"/db", Bytes{kPlanGi}, std::nullopt, std::nullopt}};
  node.present_min = {{"/kubepods", 7 * kPlanGi, false}};
  node.min_limit = 8 * kPlanGi - 4096;
  EXPECT_EQ(node.plan().back().left, "") << "the agent replaces the 7 Gi";
  node.present_min[0].stays = true;
  auto planned = node.plan();
  EXPECT_THAT(planned.back().left, testing::HasSubstr("the node has 1073737728 to guarantee"));
  EXPECT_EQ(planned.front().value, 384 * kPlanMi) << "not limited by the 7 Gi of its own";
  EXPECT_EQ(planned.front().left, "");
  node.present_min[0].stays = false;
  node.pods.clear();  // they request nothing, so nothing is written
  EXPECT_THAT(node.plan().back().left, testing::HasSubstr("the node has 1073737728 to guarantee"));
}

TEST(MemoryQosAllocatable, MemoryMinLeavesATwentiethOfTheNode) {
  Reserved kube;
  const Reserved system;
  EXPECT_EQ(memory_min_limit({8 * kPlanGi}, kube, system), 8 * kPlanGi - 8 * kPlanGi / 20);
  kube.memory = q("1Gi");
  EXPECT_EQ(memory_min_limit({8 * kPlanGi}, kube, system), 7 * kPlanGi);
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
