// SPDX-License-Identifier: Apache-2.0
// HighNodeUtilization drains whole nodes: whatever refuses a pod now keeps its node.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kDrains = "so its node is not drained";

struct Drain {
  std::string top = {};  // of the policy
  std::vector<std::string> objects = {};
  std::function<void(Snapshot&)> change = [](Snapshot&) {};
  PlanHistory history = {};
};

World drain(const Drain& with) {
  World world = plan_for(policy_text("HighNodeUtilization", "{thresholds: {cpu: 60}}", "{}",
                                     "compat: fixed, " + with.top),
                         with.objects);
  with.change(world.snapshot);
  world.plan = rebalance(world.policy, world.snapshot, with.history);
  return world;
}

PodText labeled(const std::string& owner) {
  return {.owner = "ReplicaSet/" + owner, .metadata = R"(, "labels": {"app": "a"})"};
}

// a and b of two workloads on n1, and n2, which is no source.
std::vector<std::string> a_and_b() {
  return std::vector<std::string>{node_text("n1"), node_text("n2"),
                                  pod_text("a", "n1", labeled("a")), pod_text("b", "n1")} +
         pods_text("q", 4, "n2", {.cpu = "400m", .owner = "ReplicaSet/q"});
}

std::string budget_of_a(const std::string& name, int allowed) {
  return fmt::format(R"({{"kind": "PodDisruptionBudget", "metadata": {{"name": "{}", "namespace":
      "default"}}, "spec": {{"selector": {{"matchLabels": {{"app": "a"}}}}}},
      "status": {{"disruptionsAllowed": {}}}}})",
                     name, allowed);
}

ClusterPod& pod_to_change(Snapshot& snapshot, std::string_view name) {
  return *std::ranges::find(snapshot.pods, name, &ClusterPod::name);
}

// The reasons of what was refused.
std::vector<std::string> refusals(const World& world) {
  std::vector<std::string> all;
  for (const PodEviction& each : world.plan.evictions) {
    if (!each.refused.empty()) all.emplace_back(each.refused.view());
  }
  return all;
}

void expect_kept(const World& world, const std::string& why) {
  EXPECT_THAT(world.evicted(), IsEmpty());
  EXPECT_THAT(refusals(world), ElementsAre(testing::AllOf(HasSubstr(why), HasSubstr(kDrains))));
}

TEST(WholeDrains, ABudgetThatAllowsNothingKeepsTheNode) {
  expect_kept(drain({.objects = a_and_b() + std::vector{budget_of_a("x", 0)}}),
              "disruption budget");
  EXPECT_THAT(drain({.objects = a_and_b() + std::vector{budget_of_a("x", 1)}}).evicted(),
              SizeIs(2));
  expect_kept(drain({.objects = a_and_b() + std::vector{budget_of_a("x", 1), budget_of_a("y", 1)}}),
              "more than one PodDisruptionBudget");
}

// A budget of 1 lets one pod leave in each plan.
TEST(WholeDrains, WhatABudgetAllowsIsUsedInSeveralPlans) {
  const World world = drain({.objects = a_and_b() + std::vector{pod_text("a2", "n1", labeled("a")),
                                                                budget_of_a("x", 1)}});
  EXPECT_THAT(world.evicted(), SizeIs(2));
  EXPECT_THAT(refusals(world), SizeIs(1));
}

// The budget is used up by the first node: of the second one only b2 could leave.
TEST(WholeDrains, ABudgetThatThePlanUsedUpKeepsTheNextNode) {
  const World world =
      drain({.objects = a_and_b() + std::vector{node_text("n0"), pod_text("a0", "n0", labeled("a")),
                                                budget_of_a("x", 1)}});
  EXPECT_THAT(world.evicted(), ElementsAre("a0"));
  EXPECT_THAT(refusals(world), ElementsAre(HasSubstr(kDrains)));
}

TEST(WholeDrains, APodThatTheServerWouldRefuseKeepsTheNode) {
  expect_kept(drain({.objects = a_and_b(),
                     .change = [](Snapshot& all) { pod_to_change(all, "b").uid = ""; }}),
              "missing UID");
  const auto refused = [](bool in_plan) {
    return drain({.objects = a_and_b(), .change = [in_plan](Snapshot& all) {
                    pod_to_change(all, "b").refused = "forbidden";
                    pod_to_change(all, "b").refused_in_plan = in_plan;
                  }});
  };
  expect_kept(refused(false), "forbidden");
  EXPECT_THAT(refused(true).evicted(), ElementsAre("a")) << "it left before the refusal";
}

TEST(WholeDrains, ALimitThatWouldCutTheDrainKeepsTheNode) {
  for (const std::string limit :
       {"maxNoOfPodsToEvictTotal", "maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace"}) {
    SCOPED_TRACE(limit);
    const World world = drain({.top = limit + ": 1, ", .objects = a_and_b()});
    expect_kept(world, "maximum number of evicted pods per");
    EXPECT_THAT(world.run().limits, SizeIs(1));
    EXPECT_THAT(world.plan.history.value().waiting, IsEmpty()) << "no seat is enough for it";
    EXPECT_THAT(drain({.top = limit + ": 2, ", .objects = a_and_b()}).evicted(), SizeIs(2));
  }
}

// The trial of a node uses up nothing: n0 cannot be drained, n1 still can.
TEST(WholeDrains, ATrialUsesUpNoLimit) {
  const World world =
      drain({.top = "maxNoOfPodsToEvictTotal: 2, ",
             .objects = a_and_b() + std::vector{node_text("n0"), pod_text("c", "n0", {.cpu = "1m"}),
                                                pod_text("d", "n0", {.cpu = "1m", .owner = ""})}});
  EXPECT_THAT(world.evicted(), ElementsAre("a", "b"));
}

TEST(WholeDrains, ASeatThatIsHeldForOneOfThePodsCountsForIt) {
  const WaitingMove of_b{"p",
                         "HighNodeUtilization",
                         "ReplicaSet/rs",
                         "default",
                         "b",
                         "",
                         EvictionLimit::total,
                         kNow - std::int64_t{4000} * 1'000'000'000};
  Drain with{.top = "maxNoOfPodsToEvictTotal: 2, ", .objects = a_and_b()};
  with.history.waiting = {of_b};
  const World world = drain(with);
  EXPECT_THAT(world.plan.held_seats, SizeIs(1));
  EXPECT_THAT(world.evicted(), ElementsAre("a", "b"));
  with.top = "maxNoOfPodsToEvictTotal: 1, ";
  const World one = drain(with);
  EXPECT_THAT(one.plan.held_seats, SizeIs(1));
  EXPECT_THAT(one.evicted(), IsEmpty());
  EXPECT_THAT(one.plan.history.value().waiting, IsEmpty()) << "or it held that seat in each plan";
}

// b and c are of one workload.
TEST(WholeDrains, PacingCountsInTheTrial) {
  const auto objects = a_and_b() + std::vector{pod_text("c", "n1")};
  expect_kept(drain({.top = "pacing: {movesPerWorkload: 1}, ", .objects = objects}),
              "moves within");
  expect_kept(drain({.top = "pacing: {secondsBetweenMoves: 60}, ", .objects = objects}),
              "s between moves");
  EXPECT_THAT(drain({.top = "pacing: {movesPerWorkload: 2}, ", .objects = objects}).evicted(),
              SizeIs(3));
  for (const std::string one : {"movesPerWorkload: 1", "secondsBetweenMoves: 60"}) {
    EXPECT_THAT(drain({.top = "pacing: {" + one + "}, ", .objects = a_and_b()}).evicted(),
                ElementsAre("a", "b"))
        << "one move of each workload";
  }
}

}  // namespace
}  // namespace forestall::rebalance::test
