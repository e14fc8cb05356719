// SPDX-License-Identifier: Apache-2.0
// Which of an agent and a kubelet acts first, by table; and the settings of both that conflict.
#include "policy/kubelet_overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forestall::policy {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Threshold below(Signal signal, Limit limit, Duration grace = Duration::zero()) {
  Threshold threshold;
  threshold.signal = signal;
  threshold.limit = std::move(limit);
  threshold.grace = grace;
  return threshold;
}

Threshold memory_below(std::int64_t mebibytes, int grace_seconds = 0) {
  return below(Signal::memory_available, Limit::bytes(mib(mebibytes)), seconds(grace_seconds));
}

// The settings of both, and what else the comparison depends on.
struct Node {
  Config agent;
  Config kubelet;
  NodeCapacity capacity;
  std::optional<bool> cgroup_v2 = std::nullopt;
  std::optional<bool> kubelet_writes_memory_high = false;
  std::optional<double> throttling_factor = std::nullopt;

  Node(std::vector<Threshold> of_agent, std::vector<Threshold> of_kubelet) {
    agent.thresholds = std::move(of_agent);
    kubelet.thresholds = std::move(of_kubelet);
  }

  [[nodiscard]] OverlapReport overlap() const {
    return kubelet_overlap({.agent = agent,
                            .kubelet = kubelet,
                            .capacity = capacity,
                            .cgroup_v2 = cgroup_v2,
                            .kubelet_writes_memory_high = kubelet_writes_memory_high,
                            .throttling_factor = throttling_factor});
  }

  // "memory.available <100Mi <500Mi kubelet" for each threshold.
  [[nodiscard]] std::vector<std::string> rows() const {
    std::vector<std::string> all;
    for (const ComparedThreshold& each : overlap().thresholds) {
      all.push_back(std::string(to_string(each.signal)) + ' ' + each.agent.value_or("-") + ' ' +
                    each.kubelet.value_or("-") + ' ' + std::string(to_string(each.first)));
    }
    return all;
  }

  [[nodiscard]] std::vector<std::string> topics() const {
    std::vector<std::string> all;
    for (const Advice& each : overlap().advice) all.push_back(each.topic);
    return all;
  }
};

struct FirstCase {
  const char* name;
  std::vector<Threshold> agent;
  Threshold kubelet;
  const char* row;
  std::vector<std::string> topics;
};

class KubeletOverlapFirst : public ::testing::TestWithParam<FirstCase> {};

TEST_P(KubeletOverlapFirst, IsDecidedByLimitsAndGracePeriods) {
  const Node node(GetParam().agent, {GetParam().kubelet});
  EXPECT_THAT(node.rows(), ElementsAre(std::string("memory.available ") + GetParam().row));
  EXPECT_EQ(node.topics(), GetParam().topics);
}

INSTANTIATE_TEST_SUITE_P(
    Table, KubeletOverlapFirst,
    ::testing::Values(
        FirstCase{"AgentHigher", {memory_below(500)}, memory_below(100), "<500Mi <100Mi agent", {}},
        FirstCase{"KubeletHigher",
                  {memory_below(100)},
                  memory_below(500),
                  "<100Mi <500Mi kubelet",
                  {"kubelet-first"}},
        FirstCase{"Same",
                  {memory_below(100)},
                  memory_below(100),
                  "<100Mi <100Mi agent",
                  {"same-threshold"}},
        FirstCase{"AgentWaitsLess",
                  {memory_below(300, 30)},
                  memory_below(300, 90),
                  "<300Mi for 30s <300Mi for 1m30s agent",
                  {}},
        FirstCase{"KubeletWaitsLess",
                  {memory_below(300, 90)},
                  memory_below(300, 30),
                  "<300Mi for 1m30s <300Mi for 30s kubelet",
                  {"kubelet-first"}},
        FirstCase{"SameSoft",
                  {memory_below(300, 30)},
                  memory_below(300, 30),
                  "<300Mi for 30s <300Mi for 30s agent",
                  {"same-threshold"}},
        FirstCase{"HardOfAgentBeforeSoft",
                  {memory_below(500)},
                  memory_below(300, 30),
                  "<500Mi <300Mi for 30s agent",
                  {}},
        FirstCase{"SoftOfKubeletIsHigher",
                  {memory_below(100)},
                  memory_below(500, 90),
                  "<100Mi <500Mi for 1m30s either",
                  {"order-by-speed"}},
        FirstCase{"SoftOfAgentIsHigher",
                  {memory_below(500, 90)},
                  memory_below(100),
                  "<500Mi for 1m30s <100Mi either",
                  {"order-by-speed"}},
        FirstCase{"AnyOfAgentSuffices",
                  {memory_below(100), memory_below(500, 30)},
                  memory_below(300, 60),
                  "<500Mi for 30s <300Mi for 1m0s agent",
                  {}},
        FirstCase{"MetFirstIsShown",
                  {memory_below(100), memory_below(500, 30)},
                  memory_below(300),
                  "<500Mi for 30s <300Mi either",
                  {"order-by-speed"}},
        FirstCase{"None", {}, memory_below(100), "- <100Mi kubelet", {"kubelet-alone"}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(KubeletOverlap, RecommendsWhatToSetIfTheKubeletIsFirst) {
  const auto report = Node({memory_below(100)}, {memory_below(500)}).overlap();
  ASSERT_EQ(report.advice.size(), 1U);
  EXPECT_EQ(report.advice[0].severity, Severity::warning);
  EXPECT_EQ(report.advice[0].text,
            "memory.available: the kubelet has <500Mi and evicts before the agent, which has "
            "<100Mi; set 500Mi or more in the agent's evictionHard, or at most 100Mi in the "
            "kubelet's evictionHard");
  EXPECT_EQ(report.thresholds[0].reason, "the kubelet's threshold is met first");
  const auto soft = Node({memory_below(300, 90)}, {memory_below(300, 30)}).overlap();
  ASSERT_EQ(soft.advice.size(), 1U);
  EXPECT_THAT(
      soft.advice[0].text,
      HasSubstr("set 300Mi in the agent's evictionSoft with a grace period of at most 30s"));
}

TEST(KubeletOverlap, ComparesPercentagesWithAmountsAtTheCapacity) {
  Node node({below(Signal::memory_available, Limit::share(0.05F))}, {memory_below(100)});
  EXPECT_THAT(node.rows(), ElementsAre("memory.available <5% <100Mi unknown"));
  EXPECT_THAT(node.topics(), ElementsAre("order-unknown"));
  node.capacity.memory = binary(mib(1024).count);
  EXPECT_THAT(node.rows(), ElementsAre("memory.available <5% <100Mi kubelet"));
  node.capacity.memory = binary(mib(4096).count);
  EXPECT_THAT(node.rows(), ElementsAre("memory.available <5% <100Mi agent"));
  // The capacity of memory is none of a filesystem, and that of the nodefs none of the imagefs.
  node.agent.thresholds = {below(Signal::nodefs_available, Limit::share(0.05F)),
                           below(Signal::imagefs_available, Limit::share(0.05F)),
                           below(Signal::pid_available, Limit::share(0.5F))};
  node.kubelet.thresholds = {below(Signal::nodefs_available, Limit::bytes(mib(100))),
                             below(Signal::imagefs_available, Limit::bytes(mib(100))),
                             below(Signal::pid_available, {decimal(1000), std::nullopt})};
  EXPECT_THAT(node.rows(), ElementsAre("nodefs.available <5% <100Mi unknown",
                                       "imagefs.available <5% <100Mi unknown",
                                       "pid.available <50% <1k unknown"));
  node.capacity.ephemeral_storage = binary(mib(1024).count);
  node.capacity.pids = decimal(32768);
  EXPECT_THAT(node.rows(),
              ElementsAre("nodefs.available <5% <100Mi kubelet",
                          "imagefs.available <5% <100Mi unknown", "pid.available <50% <1k agent"));
}

TEST(KubeletOverlap, ComparesPercentagesWithoutTheCapacity) {
  const Node node({below(Signal::nodefs_available, Limit::share(0.15F))},
                  {below(Signal::nodefs_available, Limit::share(0.1F))});
  EXPECT_THAT(node.rows(), ElementsAre("nodefs.available <15% <10% agent"));
}

TEST(KubeletOverlap, NamesBothIfTheKernelWakesTheKubeletToo) {
  Node node({memory_below(100), below(Signal::pid_available, Limit::share(0.1F))},
            {memory_below(100), below(Signal::pid_available, Limit::share(0.1F))});
  node.kubelet.kernel_memcg_notification = true;
  EXPECT_THAT(node.rows(), ElementsAre("memory.available <100Mi <100Mi unknown",
                                       "pid.available <10% <10% agent"));
  EXPECT_THAT(node.topics(), ElementsAre("same-threshold-notified", "same-threshold"));
  node.cgroup_v2 = false;
  EXPECT_THAT(node.rows(), ElementsAre("memory.available <100Mi <100Mi either",
                                       "pid.available <10% <10% agent"));
  EXPECT_EQ(node.overlap().advice[0].severity, Severity::warning);
  node.cgroup_v2 = true;  // the kubelet ignores the setting
  EXPECT_THAT(node.topics(), ElementsAre("same-threshold"));
  node.cgroup_v2 = false;
  node.agent.thresholds[0] = memory_below(200);
  EXPECT_THAT(node.topics(), ElementsAre("same-threshold"));
}

TEST(KubeletOverlap, ListsThresholdsOfOneSideOnly) {
  Threshold warns = memory_below(100);
  warns.response = Response::warn;
  EXPECT_THAT(Node({warns}, {memory_below(100)}).rows(),
              ElementsAre("memory.available - <100Mi kubelet"));
  const Node node({below(Signal::pid_available, Limit::share(0.1F)),
                   below(Signal::swap_available, Limit::share(0.1F))},
                  {below(Signal::nodefs_available, Limit::share(0.1F)),
                   below(Signal::nodefs_inodes_free, Limit::share(0.05F))});
  EXPECT_THAT(node.rows(),
              ElementsAre("nodefs.available - <10% kubelet", "nodefs.inodesFree - <5% kubelet",
                          "pid.available <10% - agent"));
  ASSERT_THAT(node.topics(), ElementsAre("kubelet-alone"));
  EXPECT_THAT(node.overlap().advice[0].text, HasSubstr("nodefs.available, nodefs.inodesFree: "));
}

TEST(KubeletOverlap, DoesNotOrderTheBackstopAndMemoryAvailable) {
  const Node node({below(Signal::memory_until_oom, Limit::bytes(mib(64)))}, {memory_below(100)});
  EXPECT_THAT(node.rows(), ElementsAre("memory.available - <100Mi unknown"));
  EXPECT_THAT(node.overlap().thresholds[0].reason, HasSubstr("memory.untilOom<64Mi"));
}

TEST(KubeletOverlap, LeavesOutCopiesForAllocatableMemory) {
  const auto allocatable = [](std::int64_t mebibytes) {
    return below(Signal::allocatable_memory_available, Limit::bytes(mib(mebibytes)));
  };
  EXPECT_THAT(
      Node({memory_below(200), allocatable(200)}, {memory_below(100), allocatable(100)}).rows(),
      ElementsAre("memory.available <200Mi <100Mi agent"));
  EXPECT_THAT(
      Node({memory_below(200), allocatable(300)}, {memory_below(100), allocatable(500)}).rows(),
      ElementsAre("memory.available <200Mi <100Mi agent",
                  "allocatableMemory.available <300Mi <500Mi kubelet"));
}

TEST(KubeletOverlap, NamesTheKubeletIfTheAgentIsInDryRun) {
  Node node({memory_below(500)}, {memory_below(100)});
  node.agent.dry_run = true;
  EXPECT_THAT(node.rows(), ElementsAre("memory.available <500Mi <100Mi kubelet"));
  EXPECT_THAT(node.topics(), ElementsAre("agent-in-dry-run"));
}

TEST(KubeletOverlap, NamesAMemoryHighThatBothWrite) {
  Threshold slow = below(Signal::cgroup_memory_available, Limit::share(0.1F));
  slow.response = Response::slow;
  Node node({slow}, {});
  EXPECT_THAT(node.topics(), IsEmpty());
  node.kubelet_writes_memory_high = true;
  EXPECT_THAT(node.topics(), ElementsAre("memory-high-twice"));
  EXPECT_THAT(node.overlap().advice[0].text, HasSubstr("`slow`"));
  node.kubelet_writes_memory_high = std::nullopt;
  EXPECT_THAT(node.topics(), ElementsAre("memory-high-unknown"));
  node.cgroup_v2 = false;  // has no memory.high
  EXPECT_THAT(node.topics(), IsEmpty());
  node.cgroup_v2 = true;
  node.kubelet_writes_memory_high = true;
  node.agent.thresholds.front().response = Response::evict;
  EXPECT_THAT(node.topics(), IsEmpty());
  node.agent.thresholds.front().tune = true;
  EXPECT_THAT(node.topics(), ElementsAre("memory-high-twice"));
  node.agent.thresholds.clear();
  rulesets::Ruleset ruleset;
  ruleset.actions = {{"throttle", rulesets::Throttle{}}};
  node.agent.rules = std::vector{ruleset};
  EXPECT_THAT(node.topics(), ElementsAre("memory-high-twice"));
  std::get<rulesets::Throttle>(ruleset.actions[0].arguments).dry = true;
  node.agent.rules = std::vector{ruleset};
  EXPECT_THAT(node.topics(), IsEmpty());
}

TEST(KubeletOverlap, NamesAnOwnLimitThatTheKubeletThrottlesBefore) {
  Threshold own = below(Signal::cgroup_memory_available, Limit::share(0.05F));
  own.own_limits_of = WorkloadClass::burstable;
  Node node({own}, {});
  node.kubelet_writes_memory_high = true;
  node.throttling_factor = 0.9;
  ASSERT_THAT(node.topics(), ElementsAre("throttled-before-own-limit"));
  EXPECT_THAT(node.overlap().advice[0].text, HasSubstr("set ownLimit to 10% or more"));
  node.agent.thresholds[0].limit = Limit::share(0.1F);
  EXPECT_THAT(node.topics(), IsEmpty());
  node.agent.thresholds[0] = own;
  node.agent.thresholds[0].own_limits_of = WorkloadClass::guaranteed;  // has no memory.high
  EXPECT_THAT(node.topics(), IsEmpty());
}

TEST(KubeletOverlap, NamesAnOomScoreAdjThatBothWrite) {
  Node node({}, {});
  EXPECT_THAT(node.topics(), IsEmpty());
  node.agent.oom_score_adj = OomScoreAdj::enforce;
  EXPECT_THAT(node.topics(), ElementsAre("oom-score-adj-twice"));
  node.agent.dry_run = true;
  EXPECT_THAT(node.topics(), ElementsAre("agent-in-dry-run"));
}

TEST(KubeletOverlap, ListsWarningsFirst) {
  const Node node({memory_below(100)},
                  {below(Signal::nodefs_available, Limit::share(0.1F)), memory_below(500)});
  EXPECT_THAT(node.topics(), ElementsAre("kubelet-first", "kubelet-alone"));
}

}  // namespace
}  // namespace forestall::policy
