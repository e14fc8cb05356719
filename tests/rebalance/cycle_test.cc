// SPDX-License-Identifier: Apache-2.0
// The cycle over plugins and profiles: nodes, limits, answers of the API server, and what a plugin
// gets of the evictions before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string any_age(const std::string& top = "", const std::string& evictor = "{}") {
  return policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 0}", evictor, top);
}

const std::vector<std::string> kNodes{node_text("n1"), node_text("n2")};

TEST(Cycle, NeedsTwoReadyNodesOfTheSelector) {
  const char* const not_ready = R"(, "conditions": [{"type": "Ready", "status": "Unknown"}])";
  const auto pods = pods_text("p", 1, "n1");
  EXPECT_THAT(plan_for(any_age(), kNodes + pods).evicted(), SizeIs(1));
  const World one = plan_for(any_age(), std::vector<std::string>{node_text("n1")} + pods);
  EXPECT_FALSE(one.plan.skipped.empty());
  EXPECT_THAT(one.plan.profiles, SizeIs(1));
  EXPECT_FALSE(
      plan_for(
          any_age(),
          std::vector<std::string>{node_text("n1"), node_text("n2", {.status = not_ready})} + pods)
          .plan.skipped.empty());
  EXPECT_FALSE(plan_for(any_age("nodeSelector: 'a in (1, 2)', "),
                        std::vector<std::string>{node_text("n1", {.labels = R"("a": "1")"}),
                                                 node_text("n2")} +
                            pods)
                   .plan.skipped.empty());
}

TEST(Cycle, CountsNoEvictionThatTheServerRefusedLately) {
  World world = plan_for(any_age("maxNoOfPodsToEvictTotal: 1, "), kNodes + pods_text("p", 3, "n1"));
  ASSERT_THAT(world.evicted(), ElementsAre("p1"));
  world.snapshot.pods[0].refused = "403 Forbidden";
  world.plan = rebalance(world.policy, world.snapshot);
  EXPECT_EQ(world.plan.evictions.at(0).refused,
            "error when evicting pod (ignoring) \"p1\": 403 Forbidden");
  EXPECT_EQ(world.snapshot.pods[world.plan.evictions.at(1).pod].name, "p2");
  EXPECT_EQ(world.plan.evictions.at(1).refused, "");
  EXPECT_THAT(world.plan.evictions, SizeIs(2));
}

TEST(Cycle, AnEvictionInTheBackgroundCountsInTheLimits) {
  for (const char* const limit : {"maxNoOfPodsToEvictTotal: 2, ", "maxNoOfPodsToEvictPerNode: 2, ",
                                  "maxNoOfPodsToEvictPerNamespace: 2, "}) {
    SCOPED_TRACE(limit);
    World world = plan_for(any_age(limit), kNodes + pods_text("p", 4, "n1"));
    ASSERT_THAT(world.evicted(), ElementsAre("p1", "p2"));
    world.snapshot.pods[3].evicted_in_background = true;
    world.plan = rebalance(world.policy, world.snapshot);
    EXPECT_THAT(world.evicted(), Contains("p1"));
    EXPECT_THAT(world.evicted(), Not(Contains(AnyOf("p2", "p3"))));
    // It is no further eviction.
    world.snapshot.pods[3].evicted_in_background = false;
    world.snapshot.pods[0].evicted_in_background = true;
    world.plan = rebalance(world.policy, world.snapshot);
    EXPECT_THAT(world.evicted(), ElementsAre("p1", "p2"));
  }
}

struct LimitRow {
  const char* top;
  std::vector<std::string> evicted;
  const char* message;
};

TEST(Cycle, ChecksLimitsBeforeEachEviction) {
  const auto cluster = kNodes + std::vector<std::string>{pod_text("a", "n1"), pod_text("b", "n1"),
                                                         pod_text("c", "n2", {.space = "x"})};
  const LimitRow rows[] = {
      {"maxNoOfPodsToEvictTotal: 2, ",
       {"a", "b"},
       "maximum number of evicted pods per a descheduling cycle reached"},
      {"maxNoOfPodsToEvictTotal: 0, ",
       {},
       "maximum number of evicted pods per a descheduling cycle reached"},
      {"maxNoOfPodsToEvictPerNode: 1, ",
       {"a", "c"},
       "maximum number of evicted pods per node reached"},
      {"maxNoOfPodsToEvictPerNamespace: 1, ",
       {"a", "c"},
       "maximum number of evicted pods per namespace reached"},
  };
  for (const LimitRow& row : rows) {
    SCOPED_TRACE(row.top);
    const World world = plan_for(any_age(row.top), cluster);
    EXPECT_EQ(world.evicted(), row.evicted);
    EXPECT_THAT(world.run().limits, ElementsAre(row.message));
  }
}

std::string budget(const std::string& name, int allowed) {
  return R"({"kind": "PodDisruptionBudget", "metadata": {"name": ")" + name +
         R"(", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "a"}}},
         "status": {"disruptionsAllowed": )" +
         std::to_string(allowed) + "}}";
}

TEST(Cycle, ABudgetRefusesAndTheRefusalCountsForNothing) {
  const PodText guarded{.metadata = R"(, "labels": {"app": "a"})"};
  const auto cluster =
      kNodes + std::vector<std::string>{pod_text("a", "n1", guarded), pod_text("b", "n1", guarded),
                                        pod_text("c", "n1")};
  const World world = plan_for(any_age("maxNoOfPodsToEvictTotal: 2, "),
                               cluster + std::vector<std::string>{budget("x", 1)});
  EXPECT_THAT(world.evicted(), ElementsAre("a", "c"));
  ASSERT_THAT(world.plan.evictions, SizeIs(3));
  EXPECT_EQ(world.plan.evictions[1].refused,
            "error when evicting pod (ignoring) \"b\": Cannot evict pod as it would violate the "
            "pod's disruption budget.");
  const World two =
      plan_for(any_age(), cluster + std::vector<std::string>{budget("x", 1), budget("y", 1)});
  EXPECT_THAT(two.evicted(), ElementsAre("c"));
}

TEST(Cycle, PendingAndFinishedPodsNeedNoBudget) {
  const char* const labels = R"(, "labels": {"app": "a"})";
  const World world = plan_for(
      any_age(), kNodes + std::vector<std::string>{
                              pod_text("p", "n1", {.metadata = labels, .phase = "Pending"}),
                              pod_text("s", "n1", {.metadata = labels, .phase = "Succeeded"}),
                              budget("x", 0)});
  EXPECT_THAT(world.evicted(), ElementsAre("p", "s"));
}

TEST(Cycle, APodWithoutUidIsRefused) {
  std::string text = pod_text("p", "n1");
  text.replace(text.find("uid-p"), 5, "");
  const World world = plan_for(any_age(), kNodes + std::vector<std::string>{text});
  ASSERT_THAT(world.plan.evictions, SizeIs(1));
  EXPECT_EQ(world.plan.evictions[0].refused, "Pod default/p is missing UID");
}

const char* const kTwoPlugins =
    "{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, profiles: ["
    "{name: a, pluginConfig: [{name: RemoveDuplicates, args: {}}, {name: DefaultEvictor, args: "
    "{minReplicas: 3}}], plugins: {balance: {enabled: [RemoveDuplicates]}}}, "
    "{name: b, pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 3600}}], plugins: "
    "{deschedule: {enabled: [PodLifeTime]}}}]}";

TEST(Cycle, DescheduleRunsBeforeBalanceAndEvictedPodsAreGone) {
  PodText young;
  young.metadata = R"(, "creationTimestamp": "2026-01-01T11:59:00Z")";
  const auto cluster = kNodes + pods_text("p", 2, "n1", young) + pods_text("old", 2, "n1");
  const World world = plan_for(kTwoPlugins, cluster);
  // Two of four replicas are left when RemoveDuplicates runs: its minReplicas protects them.
  EXPECT_THAT(world.evicted(), ElementsAre("old1", "old2"));
  EXPECT_THAT(world.plan.profiles.at(0).plugins.at(0).evictions, IsEmpty());
  EXPECT_EQ(world.plan.profiles.at(1).plugins.at(0).point, ExtensionPoint::deschedule);
}

TEST(Cycle, EvictedPodsStayUntilThePluginEnds) {
  // One place on n2; both pods fit it, because the first replacement is not simulated.
  const std::vector<std::string> cluster{node_text("n1"), node_text("n2", {.pods = "1"}),
                                         pod_text("a", "n1"), pod_text("b", "n1")};
  EXPECT_THAT(plan_for(any_age("", "{nodeFit: true, minReplicas: 2}"), cluster).evicted(),
              ElementsAre("a", "b"));
}

TEST(Cycle, FitsAreLeftOutOfHugePlans) {
  const World world = plan_for(any_age(), kNodes + pods_text("p", 3, "n1"));
  CycleOptions options;
  options.explain = true;
  options.fits_max = 5;
  const RebalancePlan plan = rebalance(world.policy, world.snapshot, options);
  EXPECT_TRUE(plan.fits_omitted);
  EXPECT_THAT(plan.profiles.at(0).plugins.at(0).pods.at(1).fits, SizeIs(2));
  EXPECT_THAT(plan.profiles.at(0).plugins.at(0).pods.at(2).fits, IsEmpty());
}

}  // namespace
}  // namespace forestall::rebalance::test
