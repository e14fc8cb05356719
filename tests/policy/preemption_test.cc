// SPDX-License-Identifier: Apache-2.0
// Preemption for critical pods.
#include "policy/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/pod_facts.h"
#include "tests/policy/dice.h"
#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Pods = std::vector<std::shared_ptr<const Pod>>;

std::shared_ptr<const Pod> requesting(const std::string& name, QosClass qos, const std::string& cpu,
                                      const std::string& memory,
                                      std::optional<std::int32_t> priority = {}) {
  Pod made = pod(name, {container("c", amounts(cpu, memory))});
  made.status_qos = qos;
  made.priority = priority;
  return std::make_shared<const Pod>(made);
}

std::shared_ptr<const Pod> guaranteed(const std::string& name, const std::string& memory) {
  return requesting(name, QosClass::guaranteed, "", memory);
}
std::shared_ptr<const Pod> burstable(const std::string& name, const std::string& memory) {
  return requesting(name, QosClass::burstable, "", memory);
}
std::shared_ptr<const Pod> best_effort(const std::string& name) {
  return requesting(name, QosClass::best_effort, "", "");
}

Pod critical(const std::string& cpu, const std::string& memory) {
  Pod made = pod("critical", {container("c", amounts(cpu, memory))});
  made.priority = 2'000'000'000;
  return made;
}

Allocatable node(const std::string& cpu, const std::string& memory,
                 std::optional<std::int64_t> count = {}) {
  return {.resources = amounts(cpu, memory), .pods = count};
}

// Names of the victims; only "impossible" if there is no solution.
std::vector<std::string> victims(const Pod& incoming, const Pods& active,
                                 const Allocatable& allocatable) {
  const auto found = preempt(incoming, active, allocatable);
  if (!found) return {"impossible"};
  std::vector<std::string> names;
  for (const std::size_t index : found->victims) names.push_back(active[index]->name);
  return names;
}

TEST(PreemptionTest, PreemptsNothingIfThePodFits) {
  const Pods active{burstable("a", "6Gi")};
  const auto found = preempt(critical("", "4Gi"), active, node("", "10Gi"));
  EXPECT_EQ(found, Preemption{});
}

TEST(PreemptionTest, OnlyForCriticalPods) {
  const Pods active{burstable("a", "10Gi")};
  Pod ordinary = critical("", "4Gi");
  ordinary.priority = 1'999'999'999;
  EXPECT_THAT(victims(ordinary, active, node("", "10Gi")), ElementsAre("impossible"));
  ordinary.origin = PodOrigin::static_file;
  EXPECT_THAT(victims(ordinary, active, node("", "10Gi")), ElementsAre("a"));
}

TEST(PreemptionTest, ImpossibleWhenAllOfThemDoNotSuffice) {
  EXPECT_THAT(victims(critical("", "11Gi"), {burstable("a", "10Gi")}, node("", "10Gi")),
              ElementsAre("impossible"));
}

TEST(PreemptionTest, PreemptsOnlyLowerPriorities) {
  struct Case {
    std::optional<std::int32_t> preemptor;
    std::optional<std::int32_t> other;
    bool may;
  };
  const std::vector<Case> cases{
      {2'000'000'000, {}, true},
      {2'000'000'000, 1'999'999'999, true},
      {2'000'000'000, 2'000'000'000, false},
      {2'000'001'000, 2'000'000'000, true},
      {5, 4, true},
      {5, 5, false},
      {5, {}, false},
      {{}, 4, false},
  };
  for (const Case& one : cases) {
    Pod preemptor = pod("p", {});
    preemptor.priority = one.preemptor;
    Pod other = pod("o", {});
    other.priority = one.other;
    EXPECT_EQ(may_preempt(preemptor, other), one.may)
        << one.preemptor.value_or(0) << " " << one.other.value_or(0);
  }
  Pod mirror = pod("m", {});
  mirror.origin = PodOrigin::mirror;
  EXPECT_FALSE(may_preempt(critical("", ""), mirror));
}

TEST(PreemptionTest, LowerClassesGoFirst) {
  const Pods active{guaranteed("g", "4Gi"), burstable("b", "4Gi"), best_effort("e")};
  EXPECT_THAT(victims(critical("", "2Gi"), active, node("", "8Gi")), ElementsAre("b"))
      << "a BestEffort pod requests nothing and would not help";
  EXPECT_THAT(victims(critical("", "6Gi"), active, node("", "8Gi")), ElementsAre("b", "g"));
}

// The number of pods is a resource like any other; for it, BestEffort pods help.
TEST(PreemptionTest, BestEffortPodsMakeRoomForOneMorePod) {
  const Pods active{guaranteed("g", "1Gi"), burstable("b", "1Gi"), best_effort("e")};
  const auto found = preempt(critical("", "1Gi"), active, node("", "", 3));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->metric_signal, "pods");
  EXPECT_THAT(victims(critical("", "1Gi"), active, node("", "", 3)), ElementsAre("e"));
  EXPECT_THAT(victims(critical("", "1Gi"), active, node("", "2560Mi", 3)), ElementsAre("b"))
      << "one that gives both, then nothing is lacking";
}

TEST(PreemptionTest, PreemptsTheFewestAndSmallest) {
  const Pods active{burstable("small", "1Gi"), burstable("large", "6Gi"), burstable("right", "3Gi"),
                    burstable("also", "3Gi")};
  const auto choose = [&](const std::string& memory) {
    return victims(critical("", memory), active, node("", "13Gi"));
  };
  EXPECT_THAT(choose("1Gi"), ElementsAre("small")) << "the smallest that gives all";
  EXPECT_THAT(choose("2Gi"), ElementsAre("also")) << "alike in all: by name";
  EXPECT_THAT(choose("4Gi"), ElementsAre("large"));
  EXPECT_THAT(choose("7Gi"), ElementsAre("large", "small"));
  EXPECT_THAT(choose("9Gi"), ElementsAre("large", "also"));
}

// Each lacking resource has the same weight, by its unmet fraction.
TEST(PreemptionTest, DistanceIsTheSumOfSquaredUnmetFractions) {
  // Lacking: 2 cores and 4 Gi.
  const Pods active{
      requesting("cpu", QosClass::burstable, "2", ""),         // 0 + 1 = 1
      requesting("both", QosClass::burstable, "1", "2Gi"),     // 1/4 + 1/4
      requesting("memory", QosClass::burstable, "", "4Gi"),    // 1 + 0 = 1
      requesting("more", QosClass::burstable, "500m", "3Gi"),  // 9/16 + 1/16
  };
  EXPECT_THAT(victims(critical("2", "4Gi"), active, node("3500m", "9Gi")),
              ElementsAre("both", "more", "cpu"))
      << "then 1 core and 2 Gi are lacking: cpu 1, memory 1, more 1/4; then half a core";
}

TEST(PreemptionTest, TiesGoToTheSmallerMemoryThenTheSmallerCpu) {
  const Pods active{requesting("a", QosClass::burstable, "2", "4Gi"),
                    requesting("b", QosClass::burstable, "2", "3Gi"),
                    requesting("c", QosClass::burstable, "1", "3Gi")};
  EXPECT_THAT(victims(critical("", "1Gi"), active, node("", "10Gi")), ElementsAre("c"));
  const Pods at_odds{requesting("a", QosClass::burstable, "1", "4Gi"),
                     requesting("b", QosClass::burstable, "2", "3Gi")};
  EXPECT_THAT(victims(critical("", "1Gi"), at_odds, node("", "7Gi")), ElementsAre("b"));
}

TEST(PreemptionTest, CpuIsCountedInThousandths) {
  const Pods active{requesting("a", QosClass::burstable, "1500m", "")};
  EXPECT_THAT(victims(critical("500m", ""), active, node("2", "")), IsEmpty());
  EXPECT_THAT(victims(critical("500100u", ""), active, node("2", "")), ElementsAre("a"))
      << "501 thousandths, rounded up";
}

TEST(PreemptionTest, AnUnrequestedResourceIsNotLacking) {
  const Pods active{requesting("a", QosClass::burstable, "5", "1Gi")};
  EXPECT_THAT(victims(critical("", "1Gi"), active, node("2", "9Gi")), IsEmpty());
  const auto found = preempt(critical("1", "9Gi"), active, node("2", "9Gi"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->metric_signal, "cpu") << "the first that is lacking";
}

// In every world: the victims suffice, none is critical, and the order of the input does not
// matter.
TEST(PreemptionTest, PropertiesOfTheChoice) {
  std::size_t preempting = 0;
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    Dice dice(seed);
    Pods active;
    for (auto count = dice.below(8); count > 0; --count) {
      Pod made = pod("p" + std::to_string(count), {container("c")});
      made.status_qos = static_cast<QosClass>(dice.below(3));
      if (dice.one_in(6)) made.priority = 2'000'000'000;
      made.containers[0].requests.memory = binary(dice.below(5));
      made.containers[0].requests.cpu = binary(dice.below(3));
      active.push_back(std::make_shared<const Pod>(made));
    }
    Pod incoming = critical("", "");
    incoming.containers[0].requests.memory = binary(dice.below(8));
    incoming.containers[0].requests.cpu = binary(dice.below(4));
    Allocatable allocatable;
    allocatable.resources.memory = binary(8 + dice.below(8));
    allocatable.resources.cpu = binary(4 + dice.below(4));
    if (dice.one_in(2)) allocatable.pods = dice.below(8);

    const auto found = preempt(incoming, active, allocatable);
    Pods shuffled = active;
    dice.shuffle(shuffled);
    EXPECT_EQ(victims(incoming, active, allocatable), victims(incoming, shuffled, allocatable))
        << seed;
    if (!found) continue;
    Pods left;
    for (std::size_t i = 0; i < active.size(); ++i) {
      if (std::find(found->victims.begin(), found->victims.end(), i) == found->victims.end()) {
        left.push_back(active[i]);
      } else {
        EXPECT_FALSE(is_critical(*active[i])) << seed;
      }
    }
    EXPECT_EQ(preempt(incoming, left, allocatable), Preemption{}) << seed << ": it fits now";
    EXPECT_EQ(found->metric_signal.empty(), found->victims.empty()) << seed;
    preempting += found->victims.empty() ? 0 : 1;
  }
  EXPECT_GT(preempting, 200U) << "too few preemptions to prove anything";
}

}  // namespace
}  // namespace forestall::policy
