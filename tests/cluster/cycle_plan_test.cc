// SPDX-License-Identifier: Apache-2.0
#include "cluster/cycle_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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
rebalance::Snapshot two_old_pods() {
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
  return reader.take(kNow);
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

}  // namespace
}  // namespace forestall::cluster
