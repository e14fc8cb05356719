// SPDX-License-Identifier: Apache-2.0
#include "cluster/cycle_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cluster/rebalance_policy.h"
#include "descheduler/cluster_snapshot.h"
#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

TEST(CyclePlan, IsMadeAgainWithinBounds) {
  test::ManualClock clock;
  RefusedPods refused;
  CyclePlan often({}, {}, {}, {});
  int made = 0;
  do {
    EXPECT_TRUE(often.make(refused, clock.now()).evictions.empty());
    ++made;
  } while (often.may_make_again() && made < 1000);
  EXPECT_EQ(made, CyclePlan::kAgainMax + 1);
  CyclePlan slow({}, {}, {}, {});
  EXPECT_TRUE(slow.make(refused, clock.now()).evictions.empty());
  slow.took(CyclePlan::kAgainLongest - Duration(1));
  EXPECT_TRUE(slow.may_make_again());
  slow.took(Duration(1));
  EXPECT_FALSE(slow.may_make_again());
}

constexpr const char* kOldPodsFixed = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}
  - {name: DefaultEvictor, args: {}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
)";

// Pods a and b on one of two nodes, a minute and more old.
rebalance::Snapshot two_old_pods(std::int64_t later = 0) {
  constexpr std::int64_t kNow = 1'767'268'800'000'000'000;
  std::string items;
  for (const char* name : {"n1", "n2"}) {
    items += fmt::format(R"({{"kind":"Node","metadata":{{"name":"{}"}},"status":)"
                         R"({{"allocatable":{{"cpu":"4","memory":"4Gi","pods":"110"}},)"
                         R"("conditions":[{{"type":"Ready","status":"True"}}]}}}},)",
                         name);
  }
  for (const char* name : {"a", "b"}) {
    items += fmt::format(R"({}{{"kind":"Pod","metadata":{{"name":"{}","namespace":"shop",)"
                         R"("uid":"uid-{}","creationTimestamp":"2020-01-01T00:00:00Z",)"
                         R"("ownerReferences":[{{"kind":"ReplicaSet","name":"{}","uid":"{}"}}]}},)"
                         R"("spec":{{"nodeName":"n1","containers":[{{"name":"c"}}]}},)"
                         R"("status":{{"phase":"Running","startTime":"2020-01-01T00:00:00Z"}}}})",
                         *name == 'a' ? "" : ",", name, name, name, name);
  }
  descheduler::ClusterSnapshotReader reader;
  const auto added = reader.add(R"({"kind":"List","items":[)" + items + "]}");
  EXPECT_TRUE(added) << added.error().text();
  return reader.take(kNow + later * 1'000'000'000);
}

std::vector<std::string> moved_pods(const CyclePlan::Made& made) {
  std::vector<std::string> names;
  for (const rebalance::Move& each : made.plan.history.value().moves) names.push_back(each.pod);
  return names;
}

// The plan counts it as evicted, so that no other pod follows in its place.
TEST(CyclePlan, HasNoMoveOfAPodThatWasGone) {
  test::ManualClock clock;
  RefusedPods refused;
  auto policy = read_policy("policy.yaml", kOldPodsFixed, "fixed", nullptr);
  ASSERT_TRUE(policy) << policy.error().text();
  CyclePlan plan(*std::move(policy), two_old_pods(), {}, {});
  EXPECT_THAT(moved_pods(plan.make(refused, clock.now())), testing::ElementsAre("a", "b"));
  plan.gone("uid-a", "not found");
  plan.ended("uid-b", "refused by its budget");
  EXPECT_THAT(moved_pods(plan.make(refused, clock.now())), testing::IsEmpty());
}

// A StatefulSet's pod has the same name again.
TEST(CyclePlan, KeepsTheEarlierMoveOfAPodThatWasGone) {
  test::ManualClock clock;
  RefusedPods refused;
  auto policy = read_policy("policy.yaml", kOldPodsFixed, "fixed", nullptr);
  ASSERT_TRUE(policy) << policy.error().text();
  rebalance::Snapshot snapshot = two_old_pods();
  rebalance::Move before{"other", "n2", "shop", "a", snapshot.taken_ns - 1'000'000'000};
  CyclePlan plan(*std::move(policy), std::move(snapshot), {}, {{before}, {}});
  EXPECT_THAT(moved_pods(plan.make(refused, clock.now())), testing::ElementsAre("a", "a", "b"));
  plan.gone("uid-a", "not found");
  EXPECT_THAT(moved_pods(plan.make(refused, clock.now())), testing::ElementsAre("a", "b"));
}

// What was evicted before the refusal stays in the plan, or the limit would be exceeded.
TEST(CyclePlan, KeepsItsDecisionsIfTheMoveWithTheSeatIsRefused) {
  test::ManualClock clock;
  RefusedPods refused;
  auto policy = read_policy(
      "policy.yaml", "maxNoOfPodsToEvictTotal: 1" + std::string(kOldPodsFixed), "fixed", nullptr);
  ASSERT_TRUE(policy) << policy.error().text();
  const auto seat_of_b = [](std::int64_t now) {
    return rebalance::WaitingMove{"p",
                                  "PodLifeTime",
                                  "b",
                                  "shop",
                                  "b",
                                  "",
                                  rebalance::EvictionLimit::total,
                                  now - 3600 * std::int64_t{1'000'000'000}};
  };
  rebalance::Snapshot snapshot = two_old_pods();
  const rebalance::PlanHistory history{{}, {seat_of_b(snapshot.taken_ns)}};
  CyclePlan plan(*std::move(policy), std::move(snapshot), {}, history);
  const CyclePlan::Made first = plan.make(refused, clock.now());
  EXPECT_THAT(moved_pods(first), testing::ElementsAre("b"));
  plan.ended("uid-b", "refused by its budget");
  const CyclePlan::Made again = plan.make(refused, clock.now());
  EXPECT_THAT(moved_pods(again), testing::IsEmpty()) << "a was decided while the seat was held";
  ASSERT_EQ(again.plan.history.value().waiting.size(), 1U);
  EXPECT_EQ(again.plan.history.value().waiting[0].pod, "a");
}

struct RacedCycle {
  std::vector<std::string> requested;
  rebalance::PlanHistory history;  // for the next one
};

// The policy evicts one pod. The server answers so if it is b.
RacedCycle raced_cycle(int later, const rebalance::PlanHistory& history, PlannedEnd answer) {
  const test::ManualClock clock;
  RefusedPods refused;
  auto policy = read_policy(
      "policy.yaml", "maxNoOfPodsToEvictTotal: 1" + std::string(kOldPodsFixed), "fixed", nullptr);
  EXPECT_TRUE(policy) << policy.error().text();
  CyclePlan plan(*std::move(policy), two_old_pods(later), {}, history);
  RacedCycle cycle;
  bool goes_on = true;
  while (std::exchange(goes_on, false)) {
    CyclePlan::Made made = plan.make(refused, clock.now());
    for (const PlannedEviction& each : made.evictions) {
      cycle.requested.push_back(each.pod.name);
      const PlannedEnd end = each.pod.name == "b" ? answer : PlannedEnd::evicted;
      goes_on = !may_be_evicted(end);
      plan.ended(each.pod.uid, goes_on ? "refused" : "");
      plan.requested(each, end);
    }
    cycle.history = made.plan.history.value();
  }
  cycle.history.waiting = plan.waits_after(std::move(cycle.history.waiting));
  return cycle;
}

// a is evicted in each cycle, and b waits until a seat is held for it. Then another client is
// faster than the plan with the disruption of b's budget, or its server has an error.
TEST(CyclePlan, AMoveThatTheServerRefusesInEachCycleKeepsItsSeat) {
  for (const PlannedEnd answer : {PlannedEnd::refused_by_budget, PlannedEnd::failed,
                                  PlannedEnd::no_room, PlannedEnd::abandoned}) {
    SCOPED_TRACE(to_string(answer));
    rebalance::PlanHistory history;
    std::vector<std::string> requested;
    for (int cycle = 0; cycle < 10; ++cycle) {
      RacedCycle raced =
          raced_cycle(cycle * 300, history, cycle < 8 ? answer : PlannedEnd::evicted);
      for (const std::string& each : raced.requested) requested.push_back(each);
      history = std::move(raced.history);
    }
    EXPECT_THAT(requested, testing::ElementsAre("a", "a", "a", "a", "a", "a", "b", "b", "b", "a"));
  }
}

// The seat goes to another move that waits as long meanwhile.
TEST(CyclePlan, AMoveThatTheServerAlwaysRefusesKeepsNoSeatFromOthers) {
  rebalance::PlanHistory history;
  int evicted = 0;
  for (int cycle = 0; cycle < 30; ++cycle) {
    RacedCycle raced = raced_cycle(cycle * 300, history, PlannedEnd::refused_by_budget);
    if (cycle > 6) evicted += static_cast<int>(std::ranges::count(raced.requested, "a"));
    history = std::move(raced.history);
  }
  EXPECT_GT(evicted, 1);
}

}  // namespace
}  // namespace forestall::cluster
