// SPDX-License-Identifier: Apache-2.0
// Moves that a limit refuses plan after plan get its next seat.
#include "rebalance/waiting_moves.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rebalance/cluster_view.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kWaitSecond = 1'000'000'000;
constexpr int kPlanSeconds = 300;

// Pods that restart often leave first, then old ones.
std::string restarts_then_age(const std::string& top, const std::string& age = "1") {
  return fmt::format(
      "{{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, {}profiles: [{{name: p, "
      "pluginConfig: [{{name: RemovePodsHavingTooManyRestarts, args: {{podRestartThreshold: 3}}}}, "
      "{{name: PodLifeTime, args: {{maxPodLifeTimeSeconds: {}, labelSelector: {{matchLabels: "
      "{{kind: old}}}}}}}}], plugins: {{deschedule: {{enabled: "
      "[RemovePodsHavingTooManyRestarts, PodLifeTime]}}}}}}]}}",
      top, age);
}

std::string restarting(const std::string& name, const PodText& like = {}) {
  PodText text = like;
  text.owner = "Job/" + name;
  text.status = R"(, "containerStatuses": [{"restartCount": 9}])";
  return pod_text(name, "n1", text);
}

std::string old_pod(const std::string& name, const std::string& cpu = "100m") {
  return pod_text(name, "n1",
                  {.cpu = cpu,
                   .owner = "ReplicaSet/of-" + name,
                   .metadata = R"(, "creationTimestamp": "2026-01-01T11:00:00Z",
                                  "labels": {"kind": "old"})"});
}

const char* const kBudget = R"({"kind": "PodDisruptionBudget", "metadata": {"name": "x",
    "namespace": "default"}, "spec": {"selector": {}}, "status": {"disruptionsAllowed": 1}})";

std::vector<std::string> large_nodes() {
  return {node_text("n1"), node_text("n2")};
}

WaitingMove waiting(const std::string& pod, int seconds,
                    EvictionLimit limit = EvictionLimit::total) {
  return {"p", "PodLifeTime", "ReplicaSet/of-" + pod,      "default", pod,
          "",  limit,         kNow - seconds * kWaitSecond};
}

World planned(const std::string& policy, const std::vector<std::string>& objects,
              const std::vector<WaitingMove>& moves) {
  World world = plan_for(policy, objects);
  world.plan = rebalance(world.policy, world.snapshot, PlanHistory{{}, moves});
  return world;
}

Corrections all_but_waiting() {
  Corrections some = Corrections::none();
  for (const CorrectionRow& each : correction_table()) {
    if (each.correction != Correction::waiting_moves) some.add(each.correction);
  }
  return some;
}

struct LimitCase {
  std::string policy;  // its top
  EvictionLimit limit;
};

// A new pod restarts too often before each plan, and uses up the limit.
std::vector<int> plans_that_evict_z(const LimitCase& by, const std::string& compat,
                                    bool without = false) {
  std::vector<int> plans;
  PlanHistory history;
  for (int i = 0; i < 14; ++i) {
    std::vector<std::string> objects =
        large_nodes() +
        std::vector{old_pod("z"), restarting(fmt::format("r{}", i), {.metadata = R"(,
            "creationTimestamp": "2026-01-01T10:00:00Z")"})};
    if (by.limit == EvictionLimit::budget) objects.emplace_back(kBudget);
    World world = plan_for(restarts_then_age("compat: " + compat + ", " + by.policy), objects);
    if (without) world.policy.corrections = all_but_waiting();
    world.snapshot.taken_ns = kNow + i * kPlanSeconds * kWaitSecond;
    world.plan = rebalance(world.policy, world.snapshot, history);
    EXPECT_THAT(world.evicted(), SizeIs(1));
    if (world.evicted() == std::vector<std::string>{"z"}) plans.push_back(i);
    history = world.plan.history.value_or(PlanHistory());
    if (compat == "upstream" || without) {
      EXPECT_THAT(history.waiting, IsEmpty());
    }
    for (const WaitingMove& each : history.waiting) {
      EXPECT_EQ(each.limit, by.limit) << each.pod;
    }
  }
  return plans;
}

TEST(WaitingMoves, AStarvedWorkloadGetsItsTurnAfterHalfAnHour) {
  for (const LimitCase& each :
       {LimitCase{"maxNoOfPodsToEvictTotal: 1, ", EvictionLimit::total},
        {"maxNoOfPodsToEvictPerNode: 1, ", EvictionLimit::node},
        {"maxNoOfPodsToEvictPerNamespace: 1, ", EvictionLimit::pod_namespace},
        {"", EvictionLimit::budget}}) {
    SCOPED_TRACE(to_string(each.limit));
    EXPECT_THAT(plans_that_evict_z(each, "fixed"), ElementsAre(6, 13));
    EXPECT_THAT(plans_that_evict_z(each, "fixed", true), IsEmpty());
    EXPECT_THAT(plans_that_evict_z(each, "upstream"), IsEmpty());
  }
}

// PodLifeTime starts with the oldest pod and ended at the total limit.
TEST(WaitingMoves, TheOrderOfOnePluginStarvesNoWorkload) {
  std::vector<int> plans;
  PlanHistory history;
  for (int i = 0; i < 7; ++i) {
    PodText older{.owner = fmt::format("Job/a{}", i),
                  .metadata = R"(, "creationTimestamp": "2026-01-01T10:00:00Z")"};
    World world = plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 1}", "{}",
                                       "compat: fixed, maxNoOfPodsToEvictTotal: 1, "),
                           large_nodes() + std::vector{old_pod("z"), pod_text("a", "n1", older)});
    world.snapshot.taken_ns = kNow + i * kPlanSeconds * kWaitSecond;
    world.plan = rebalance(world.policy, world.snapshot, history);
    EXPECT_THAT(world.evicted(), ElementsAre(i < 6 ? "a" : "z"));
    EXPECT_THAT(world.run().limited, SizeIs(1)) << "one event, not one for each pod";
    history = world.plan.history.value();
  }
}

constexpr const char* kOneInTotal = "compat: fixed, maxNoOfPodsToEvictTotal: 1, ";

TEST(WaitingMoves, TheOldestGetsTheSeatThenTheFirstByName) {
  const std::vector<std::string> objects =
      large_nodes() + std::vector{restarting("r"), old_pod("x"), old_pod("y"), old_pod("z")};
  const std::string policy = restarts_then_age(kOneInTotal);
  const auto evicted = [&](const std::vector<WaitingMove>& moves) {
    return planned(policy, objects, moves).evicted();
  };
  EXPECT_THAT(evicted({waiting("x", 1800), waiting("y", 1801)}), ElementsAre("y"));
  EXPECT_THAT(evicted({waiting("z", 1800), waiting("y", 1800)}), ElementsAre("y"));
  EXPECT_THAT(evicted({waiting("z", 1799), waiting("y", 1799)}), ElementsAre("r"));
  const World world = planned(policy, objects, {waiting("z", 1900), waiting("y", 1900)});
  ASSERT_THAT(world.plan.held_seats, SizeIs(1)) << "one of each limit";
  EXPECT_EQ(world.snapshot.pods[world.plan.held_seats[0].pod].name, "y");
  EXPECT_EQ(world.plan.held_seats[0].waited_seconds, 1900);
  EXPECT_EQ(world.plan.held_seats[0].limit, EvictionLimit::total);
}

TEST(WaitingMoves, TheSeatIsHeldForOneMoveOnly) {
  const World world =
      planned(restarts_then_age("compat: fixed, maxNoOfPodsToEvictTotal: 3, "),
              large_nodes() + std::vector{restarting("r1"), restarting("r2"), restarting("r3"),
                                          restarting("r4"), old_pod("y"), old_pod("z")},
              {waiting("y", 4000), waiting("z", 4000)});
  EXPECT_THAT(world.evicted(), ElementsAre("r1", "r2", "y"));
  std::vector<std::string> still;
  for (const WaitingMove& each : world.plan.history.value().waiting) still.push_back(each.pod);
  EXPECT_THAT(still, ElementsAre("z", "r3", "r4")) << "the oldest first";
}

// n2 has 2 cpu.
TEST(WaitingMoves, AMoveWithoutRoomHoldsNoSeat) {
  const World world = planned(
      restarts_then_age(kOneInTotal),
      {node_text("n1", {.cpu = "4000m"}), node_text("n2"), restarting("r"), old_pod("z", "2500m")},
      {waiting("z", 4000)});
  EXPECT_THAT(world.plan.held_seats, IsEmpty());
  EXPECT_THAT(world.evicted(), ElementsAre("r"));
}

TEST(WaitingMoves, ASeatThatItsMoveDoesNotUseIsFree) {
  const std::vector<std::string> objects =
      large_nodes() + std::vector{restarting("r"), old_pod("y"), old_pod("z")};
  WaitingMove other = waiting("r", 4000);
  other.plugin = "RemovePodsHavingTooManyRestarts";
  other.workload = "ReplicaSet/of-z";
  // The plugin does not request it: its pods do not restart.
  EXPECT_THAT(
      planned(restarts_then_age("compat: fixed, maxNoOfPodsToEvictPerNode: 2, "), objects, {other})
          .evicted(),
      ElementsAre("r", "y"));
  // The API server refuses it.
  World world = plan_for(restarts_then_age(kOneInTotal), objects);
  for (ClusterPod& each : world.snapshot.pods) {
    if (each.name != "y") continue;
    each.refused = "too many requests";
    each.refused_in_plan = true;
  }
  world.plan = rebalance(world.policy, world.snapshot, PlanHistory{{}, {waiting("y", 4000)}});
  EXPECT_THAT(world.plan.held_seats, SizeIs(1));
  EXPECT_THAT(world.evicted(), ElementsAre("z"));
  // There is no such plugin any more.
  other.plugin = "RemoveDuplicates";
  EXPECT_THAT(planned(restarts_then_age(kOneInTotal), objects, {other}).evicted(),
              ElementsAre("r"));
}

// A seat of the limit that refused it is not enough: the others must not be used up either.
TEST(WaitingMoves, ASeatOfEachLimitIsHeld) {
  const World world = planned(
      restarts_then_age("compat: fixed, maxNoOfPodsToEvictTotal: 2, "
                        "maxNoOfPodsToEvictPerNamespace: 1, maxNoOfPodsToEvictPerNode: 1, "),
      large_nodes() + std::vector{restarting("r"), old_pod("z"), std::string(kBudget)},
      {waiting("z", 4000)});
  EXPECT_THAT(world.evicted(), ElementsAre("z"));
  ASSERT_THAT(world.plan.history.value().waiting, SizeIs(1));
  EXPECT_EQ(world.plan.history.value().waiting[0].limit, EvictionLimit::node);
  EXPECT_EQ(world.plan.history.value().waiting[0].node, "n1");
}

TEST(WaitingMoves, ABudgetThatAllowsNothingHoldsNoSeatOfOtherLimits) {
  std::string budget = kBudget;
  budget.replace(budget.rfind('1'), 1, "0");
  PodText elsewhere{.space = "other"};
  const World world =
      planned(restarts_then_age(kOneInTotal),
              large_nodes() + std::vector{restarting("r", elsewhere), old_pod("z"), budget},
              {waiting("z", 4000, EvictionLimit::budget)});
  EXPECT_THAT(world.plan.held_seats, IsEmpty());
  EXPECT_THAT(world.evicted(), ElementsAre("r"));
  ASSERT_THAT(world.plan.history.value().waiting, SizeIs(1));
  EXPECT_EQ(world.plan.history.value().waiting[0].since_ns, waiting("z", 4000).since_ns)
      << "it still waits, now for the total limit";
}

// By UID a tenant can name the owner of another namespace.
TEST(WaitingMoves, AWorkloadIsOfItsNamespace) {
  PodText foreign{.space = "tenant",
                  .owner = "ReplicaSet/of-z",
                  .metadata = R"(, "creationTimestamp": "2026-01-01T11:00:00Z",
                                 "labels": {"kind": "old"})"};
  const World world = planned(
      restarts_then_age(kOneInTotal),
      large_nodes() + std::vector{restarting("r"), old_pod("z"), pod_text("a", "n1", foreign)},
      {waiting("z", 4000)});
  EXPECT_THAT(world.evicted(), ElementsAre("z"));
}

TEST(WaitingMoves, AClockThatWasSetBackStartsTheWaitAgain) {
  const World world =
      planned(restarts_then_age(kOneInTotal),
              large_nodes() + std::vector{restarting("r"), old_pod("z")}, {waiting("z", -86'400)});
  EXPECT_THAT(world.evicted(), ElementsAre("r"));
  ASSERT_THAT(world.plan.history.value().waiting, SizeIs(1));
  EXPECT_EQ(world.plan.history.value().waiting[0].since_ns, kNow);
}

TEST(WaitingMoves, WhatAPluginDidNotDecideStillWaits) {
  const World single = planned(restarts_then_age(kOneInTotal), {node_text("n1"), old_pod("z")},
                               {waiting("z", 4000)});
  EXPECT_THAT(single.plan.history.value().waiting, ElementsAre(waiting("z", 4000)));
  WaitingMove low = waiting("z", 4000);
  low.plugin = "LowNodeUtilization";
  const World failed = planned(
      policy_text("LowNodeUtilization",
                  "{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, metricsUtilization: "
                  "{source: KubernetesMetrics}}",
                  "{}",
                  std::string(kOneInTotal) + "metricsProviders: [{source: KubernetesMetrics}], "),
      large_nodes() + std::vector{old_pod("z")}, {low});
  ASSERT_NE(failed.run().error, "");
  WaitingMove low_from_now = low;
  low_from_now.since_ns = kNow;
  EXPECT_THAT(failed.plan.history.value().waiting, ElementsAre(low_from_now)) << "it holds no seat";
}

// A tenant with any number of workloads must not get all seats.
TEST(WaitingMoves, NamespacesTakeTurns) {
  const Snapshot nothing;
  const ClusterView view(nothing);
  std::vector<WaitingMove> before;
  const auto wait = [&](const char* of, const char* pod, std::int64_t seconds) {
    before.push_back({.profile = "p",
                      .plugin = "q",
                      .workload = pod,
                      .pod_namespace = of,
                      .pod = pod,
                      .node = "",
                      .since_ns = -seconds * kWaitSecond});
  };
  wait("many", "a", 9000);
  wait("many", "b", 8000);
  wait("many", "c", 7000);
  wait("one", "d", 2000);
  const WaitingMoves moves(before, view);
  std::vector<std::string> order;
  for (const WaitingMove* each : moves.due()) order.push_back(each->pod);
  EXPECT_THAT(order, ElementsAre("a", "d", "b", "c"));
}

TEST(WaitingMoves, OnlyTheOldestAreRemembered) {
  const Snapshot nothing;
  const ClusterView view(nothing);
  std::vector<WaitingMove> before;
  for (std::size_t i = 0; i <= kWaitingMax; ++i) {
    before.push_back({.profile = "p",
                      .plugin = "q",
                      .workload = fmt::format("w{}", i),
                      .pod_namespace = fmt::format("s{}", i % 11),
                      .pod = "z",
                      .node = "",
                      .since_ns = -static_cast<std::int64_t>(i)});
  }
  WaitingMoves moves(before, view);
  moves.keep({"p", "q"});
  const std::vector<WaitingMove> after = std::move(moves).take();
  ASSERT_THAT(after, SizeIs(kWaitingMax));
  EXPECT_EQ(after.front().workload, fmt::format("w{}", kWaitingMax));
  EXPECT_EQ(after.back().workload, "w1");
}

TEST(WaitingMoves, AMoveWaitsOnceForTheLongestTime) {
  const Snapshot nothing;
  const ClusterView view(nothing);
  const auto before = [](const char* node, std::int64_t since_ns) {
    return WaitingMove{"p", "q", "w", "s", "z", node, EvictionLimit::total, since_ns};
  };
  WaitingMoves moves({before("", -2), before("", -3), before("n", -1), before("", -3)}, view);
  EXPECT_THAT(moves.due(), IsEmpty());
  moves.keep({"p", "q"});
  EXPECT_THAT(std::move(moves).take(), ElementsAre(before("", -3), before("n", -1)));
}

// A pod after the last seat waits, whether or not it has room: no room is searched for it.
TEST(WaitingMoves, LimitsAreCheckedBeforeTheRoom) {
  const World world = planned(
      restarts_then_age(kOneInTotal),
      {node_text("n1", {.cpu = "4000m"}), node_text("n2"), restarting("r"), old_pod("z", "2500m")},
      {});
  EXPECT_THAT(world.evicted(), ElementsAre("r"));
  EXPECT_THAT(world.plan.evictions, SizeIs(1)) << "z is not refused";
  EXPECT_THAT(world.plan.history.value().waiting, SizeIs(1));
}

TEST(WaitingMoves, ANamespaceHasAShareOfThem) {
  const Snapshot nothing;
  const ClusterView view(nothing);
  std::vector<WaitingMove> before;
  for (std::size_t i = 0; i <= kWaitingOfNamespaceMax; ++i) {
    before.push_back({.profile = "p",
                      .plugin = "q",
                      .workload = fmt::format("w{}", i),
                      .pod_namespace = "s",
                      .pod = "z",
                      .node = "",
                      .since_ns = -static_cast<std::int64_t>(i)});
  }
  WaitingMoves moves(before, view);
  moves.keep({"p", "q"});
  const std::vector<WaitingMove> after = std::move(moves).take();
  ASSERT_THAT(after, SizeIs(kWaitingOfNamespaceMax));
  EXPECT_EQ(after.back().workload, "w1") << "the newest one is left out";
}

RequestedMove requested(const std::string& pod, RequestEnd end) {
  RequestedMove request{waiting(pod, 0, EvictionLimit::budget), end};
  request.move.node = "n1";
  return request;
}

TEST(WaitingMoves, WhatWasNotEvictedInTheClusterWaitsOn) {
  for (const RequestEnd end : {RequestEnd::refused_by_budget, RequestEnd::not_evicted}) {
    const auto after = [end](int seconds) {
      return waits_after({}, {waiting("z", seconds)}, {requested("z", end)});
    };
    EXPECT_THAT(after(700), ElementsAre(waiting("z", 700)));
    EXPECT_THAT(after(-700), ElementsAre(waiting("z", 0))) << "the clock was set back";
    EXPECT_THAT(after(4000), ElementsAre(waiting("z", 1800))) << "others that wait longer go first";
    EXPECT_THAT(waits_after({waiting("z", 0)}, {waiting("z", 700)}, {requested("z", end)}),
                ElementsAre(waiting("z", 700)));
  }
  WaitingMove on_node = waiting("z", 700, EvictionLimit::node);
  on_node.node = "n1";
  EXPECT_THAT(waits_after({}, {on_node}, {requested("z", RequestEnd::not_evicted)}),
              ElementsAre(on_node));
  on_node.node = "n2";
  EXPECT_THAT(waits_after({}, {on_node}, {requested("z", RequestEnd::not_evicted)}), IsEmpty());
}

TEST(WaitingMoves, OnlyABudgetStartsAWaitInTheCluster) {
  EXPECT_THAT(waits_after({}, {}, {requested("z", RequestEnd::refused_by_budget)}),
              ElementsAre(waiting("z", 0, EvictionLimit::budget)));
  EXPECT_THAT(waits_after({}, {}, {requested("z", RequestEnd::not_evicted)}), IsEmpty());
  EXPECT_THAT(waits_after({}, {waiting("z", 700)}, {requested("z", RequestEnd::evicted)}),
              IsEmpty());
}

TEST(WaitingMoves, AnEvictionInTheClusterStartsTheWaitOfItsWorkloadAgain) {
  RequestedMove second = requested("z", RequestEnd::refused_by_budget);
  second.move.pod = "z2";
  EXPECT_THAT(waits_after({}, {waiting("z", 700)}, {requested("z", RequestEnd::evicted), second}),
              ElementsAre(waiting("z", 0)));
}

TEST(WaitingMoves, ANamespaceHasAShareOfWhatWasNotEvictedToo) {
  std::vector<RequestedMove> all;
  for (std::size_t i = 0; i <= kWaitingOfNamespaceMax; ++i) {
    all.push_back(requested(fmt::format("w{}", i), RequestEnd::refused_by_budget));
  }
  EXPECT_THAT(waits_after({}, {}, all), SizeIs(kWaitingOfNamespaceMax));
}

World plan_with_refused_y(bool in_plan) {
  World world = plan_for(restarts_then_age(kOneInTotal),
                         large_nodes() + std::vector{restarting("r"), old_pod("y")});
  for (ClusterPod& each : world.snapshot.pods) {
    if (each.name != "y") continue;
    each.refused = "an error of the server";
    each.refused_in_plan = in_plan;
  }
  world.plan = rebalance(world.policy, world.snapshot, PlanHistory{{}, {waiting("y", 4000)}});
  return world;
}

TEST(WaitingMoves, WhatTheServerRefusedLatelyWaitsOnWithoutASeat) {
  const World lately = plan_with_refused_y(false);
  EXPECT_THAT(lately.plan.held_seats, IsEmpty());
  EXPECT_THAT(lately.evicted(), ElementsAre("r"));
  EXPECT_THAT(lately.plan.history.value().waiting, SizeIs(1));
  const World in_plan = plan_with_refused_y(true);
  EXPECT_THAT(in_plan.plan.held_seats, SizeIs(1)) << "as before the refusal";
}

}  // namespace
}  // namespace forestall::rebalance::test
