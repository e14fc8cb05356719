// SPDX-License-Identifier: Apache-2.0
// LowNodeUtilization and HighNodeUtilization: classification, stop conditions, caps and the
// eviction loop of the descheduler's pkg/framework/plugins/nodeutilization.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rebalance/usage.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const char* const kCpu30To50 =
    "{thresholds: {cpu: 30, pods: 30}, targetThresholds: {cpu: 50, pods: 50}}";

std::string low(const std::string& args, const std::string& evictor = "{}",
                const std::string& top = "") {
  return policy_text("LowNodeUtilization", args, evictor, top);
}

std::string high(const std::string& args) {
  return policy_text("HighNodeUtilization", args);
}

// n1 has 8 pods of 200m on 2000m: 80 % of cpu and pods; n2 is empty.
std::vector<std::string> hot_and_empty() {
  return std::vector<std::string>{node_text("n1"), node_text("n2")} +
         pods_text("p", 8, "n1", {.cpu = "200m"});
}

TEST(LowNodeUtilization, EvictsUntilTheNodeIsAtItsTarget) {
  const World world = plan_for(low(kCpu30To50), hot_and_empty());
  EXPECT_EQ(world.node_class("n1"), NodeClass::overutilized);
  EXPECT_EQ(world.node_class("n2"), NodeClass::underutilized);
  EXPECT_THAT(world.evicted(), ElementsAre("p1", "p2", "p3"));
  const ClassifiedNode& node = world.run().nodes.at(0);
  EXPECT_EQ(node.usage.at("cpu"), 1600);
  EXPECT_DOUBLE_EQ(node.percent.at("cpu"), 80);
  ASSERT_TRUE(world.run().total_available);
  EXPECT_EQ(world.run().total_available->at("cpu"), 1000);
  EXPECT_EQ(world.run().total_available->at("memory"), 3000);
  EXPECT_EQ(world.run().total_available->at("pods"), 5);
}

TEST(LowNodeUtilization, StopsWhenTheLowNodesAreFull) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2", {.cpu = "500m"})} +
                       pods_text("p", 8, "n1", {.cpu = "200m"});
  // 250m of room: the second pod makes it negative.
  EXPECT_THAT(plan_for(low(kCpu30To50), cluster).evicted(), ElementsAre("p1", "p2"));
}

TEST(LowNodeUtilization, AFullUnlistedResourceOfTheLowNodesBlocks) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 8, "n1", {.cpu = "200m"}) +
                       pods_text("q", 1, "n2", {.cpu = "0", .memory = "3000"});
  const World world = plan_for(low(kCpu30To50), cluster);
  EXPECT_EQ(world.node_class("n2"), NodeClass::underutilized);
  EXPECT_THAT(world.evicted(), IsEmpty());
  EXPECT_EQ(world.run().total_available->at("memory"), 0);
}

struct StopRow {
  const char* rule;
  const char* args;
  std::vector<std::string> cluster;
  const char* outcome;
};

TEST(LowNodeUtilization, StopsInTheOrderOfTheDescheduler) {
  const auto busy = pods_text("p", 8, "n1", {.cpu = "200m"});
  const std::vector<StopRow> rows{
      {"no underutilized node", kCpu30To50,
       std::vector<std::string>{node_text("n1"), node_text("n2", {.cordoned = true})} + busy,
       "no node is underutilized"},
      {"numberOfNodes", "{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, numberOfNodes: 1}",
       hot_and_empty(), "number of underutilized nodes is less or equal than NumberOfNodes"},
      {"all underutilized",
       kCpu30To50,
       {node_text("n1"), node_text("n2")},
       "all nodes are underutilized"},
      {"no overutilized node", "{thresholds: {cpu: 30}, targetThresholds: {cpu: 90}}",
       hot_and_empty(), "all nodes are under target utilization"},
  };
  for (const StopRow& row : rows) {
    SCOPED_TRACE(row.rule);
    const World world = plan_for(low(row.args), row.cluster);
    EXPECT_EQ(world.run().outcome, row.outcome);
    EXPECT_THAT(world.evicted(), IsEmpty());
  }
}

TEST(LowNodeUtilization, ACordonedNodeMayBeASource) {
  const auto cluster =
      std::vector<std::string>{node_text("n1", {.cordoned = true}), node_text("n2")} +
      pods_text("p", 8, "n1", {.cpu = "200m"});
  EXPECT_THAT(plan_for(low(kCpu30To50), cluster).evicted(), SizeIs(3));
}

TEST(LowNodeUtilization, DeviationIsTakenFromTheMean) {
  // Percent of cpu: 80, 0; the mean is 40: low is 30, high 50.
  const World world = plan_for(
      low("{useDeviationThresholds: true, thresholds: {cpu: 10}, targetThresholds: {cpu: 10}}"),
      hot_and_empty());
  EXPECT_DOUBLE_EQ(world.run().nodes.at(0).threshold.at("cpu"), 30);
  EXPECT_DOUBLE_EQ(world.run().nodes.at(0).target.at("cpu"), 50);
  EXPECT_THAT(world.evicted(), SizeIs(3));
}

TEST(LowNodeUtilization, DeviationIsClamped) {
  const World world = plan_for(
      low("{useDeviationThresholds: true, thresholds: {cpu: 90}, targetThresholds: {cpu: 90}}"),
      hot_and_empty());
  EXPECT_DOUBLE_EQ(world.run().nodes.at(0).threshold.at("cpu"), 0);
  EXPECT_DOUBLE_EQ(world.run().nodes.at(0).target.at("cpu"), 100);
}

TEST(LowNodeUtilization, TruncatesCapsAsDoubles) {
  // (29 * 0.01) * 100 is 28.999999999999996.
  const auto cluster =
      std::vector<std::string>{node_text("n1", {.pods = "100"}), node_text("n2", {.pods = "100"})} +
      pods_text("p", 30, "n1", {.cpu = "0"});
  const World world =
      plan_for(low("{thresholds: {pods: 20}, targetThresholds: {pods: 29}}"), cluster);
  EXPECT_EQ(world.run().total_available->at("pods"), 28);
  EXPECT_THAT(world.evicted(), SizeIs(2));
}

TEST(LowNodeUtilization, OrdersPodsByPriorityQosAndAnnotation) {
  const auto cluster = std::vector<std::string>{
      node_text("n1", {.pods = "5"}),
      node_text("n2", {.pods = "100"}),
      pod_text("a-high", "n1", {.priority = "100"}),
      pod_text("b-low", "n1", {.priority = "1"}),
      pod_text("c-none", "n1"),
      pod_text("d-none-besteffort", "n1", {.status = R"(, "qosClass": "BestEffort")"}),
      pod_text("e-prefers-no", "n1",
               {.metadata = R"(, "annotations": {"descheduler.alpha.kubernetes.io/)"
                            R"(prefer-no-eviction": "true"})"})};
  const World world =
      plan_for(low("{thresholds: {pods: 5}, targetThresholds: {pods: 10}}"), cluster);
  EXPECT_THAT(world.evicted(),
              ElementsAre("d-none-besteffort", "c-none", "e-prefers-no", "b-low", "a-high"));
}

TEST(LowNodeUtilization, OrdersNodesByRawUsage) {
  const auto cluster = std::vector<std::string>{node_text("a"), node_text("b"), node_text("c")} +
                       pods_text("a", 8, "a", {.cpu = "200m"}) +
                       pods_text("b", 8, "b", {.cpu = "150m", .memory = "300"});
  const World world = plan_for(
      low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, evictionLimits: {node: 1}}"),
      cluster);
  // 1600 + 8 against 1200 + 2400 + 8: memory outweighs cpu.
  EXPECT_THAT(world.evicted(), ElementsAre("b1", "a1"));
  EXPECT_THAT(world.run().limits,
              ElementsAre("Max number of evictions per node per plugin reached"));
}

TEST(LowNodeUtilization, NeedsAsManyTolerationsAsTheDestinationHasTaints) {
  const char* const two = R"({"key": "a", "effect": "NoSchedule"},
                             {"key": "b", "effect": "PreferNoSchedule"})";
  const PodText wildcard{.cpu = "200m", .spec = R"(, "tolerations": [{"operator": "Exists"}])"};
  const PodText both{.cpu = "200m", .spec = R"(, "tolerations": [{"key": "a", "operator": "Exists"},
                                              {"key": "b", "operator": "Exists"}])"};
  for (const auto& [pod, count] : {std::pair(wildcard, 0U), std::pair(both, 3U)}) {
    const auto cluster =
        std::vector<std::string>{node_text("n1"), node_text("n2", {.taints = two})} +
        pods_text("p", 8, "n1", pod);
    EXPECT_THAT(plan_for(low(kCpu30To50), cluster).evicted(), SizeIs(count));
  }
}

TEST(LowNodeUtilization, SkipsExcludedNamespacesWhoseUsageCounts) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 4, "n1", {.cpu = "200m", .space = "kept"}) +
                       pods_text("q", 4, "n1", {.cpu = "200m"});
  const World world = plan_for(
      low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, evictableNamespaces: {exclude: "
          "[kept]}}"),
      cluster);
  EXPECT_THAT(world.evicted(), ElementsAre("q1", "q2", "q3"));
}

TEST(LowNodeUtilization, AnUnlistedResourceAboveItsCapacityKeepsEvicting) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 5, "n1", {.cpu = "240m", .memory = "1000"});
  // One pod less brings cpu from 60 % to 48 %, and memory from 5000 to 4000 of 3000.
  const World world =
      plan_for(low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 55}}"), cluster);
  EXPECT_THAT(world.evicted(), SizeIs(2));
}

TEST(LowNodeUtilization, FailsWithoutAMetricsProvider) {
  const World world = plan_for(low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, "
                                   "metricsUtilization: {source: KubernetesMetrics}}"),
                               hot_and_empty());
  EXPECT_EQ(world.run().error, "metrics client not initialized");
  const World empty =
      plan_for(low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, metricsUtilization: {}}"),
               hot_and_empty());
  EXPECT_EQ(empty.run().error, "metrics source is empty");
}

std::string node_metrics(const std::string& name, const std::string& cpu) {
  return R"({"kind": "NodeMetrics", "metadata": {"name": ")" + name + R"("}, "usage": {"cpu": ")" +
         cpu + R"(", "memory": "100"}})";
}

std::string pod_metrics(const std::string& name, const std::string& cpu) {
  return R"({"kind": "PodMetrics", "metadata": {"name": ")" + name +
         R"(", "namespace": "default"}, "containers": [{"name": "c", "usage": {"cpu": ")" + cpu +
         R"(", "memory": "10"}}]})";
}

TEST(LowNodeUtilization, UsesMeasuredUsageOfNodesAndPods) {
  const std::string policy =
      low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, metricsUtilization: {source: "
          "KubernetesMetrics}}",
          "{}", "metricsProviders: [{source: KubernetesMetrics}], ");
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 4, "n1", {.cpu = "1m"});
  const World world =
      plan_for(policy, cluster,
               {node_metrics("n1", "1500m"), node_metrics("n2", "10m"), pod_metrics("p2", "300m"),
                pod_metrics("p3", "300m"), pod_metrics("p4", "300m")});
  // p1 is not measured; two of the others bring the node to 900m.
  EXPECT_THAT(world.evicted(), ElementsAre("p2", "p3"));
  const World missing = plan_for(policy, cluster, {node_metrics("n1", "1500m")});
  EXPECT_EQ(missing.run().error,
            "error getting node usage: unable to find node \"n2\" in the collected metrics");
}

// No sample has the usage of a replacement that does not run yet.
TEST(LowNodeUtilization, WhatIsBookedCountsAsTheMovedPodUsed) {
  const auto world_in = [](const std::string& compat) {
    return plan_for(
        low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, metricsUtilization: {source: "
            "KubernetesMetrics}}",
            "{}", "compat: " + compat + ", metricsProviders: [{source: KubernetesMetrics}], "),
        std::vector<std::string>{node_text("n1"), node_text("n2")} +
            pods_text("p", 4, "n1", {.cpu = "1m"}),
        {node_metrics("n1", "1500m"), node_metrics("n2", "10m"), pod_metrics("p1", "300m"),
         pod_metrics("p2", "300m"), pod_metrics("p3", "300m"), pod_metrics("p4", "300m")});
  };
  World world = world_in("fixed");
  ASSERT_THAT(world.evicted(), ElementsAre("p1", "p2"));
  Move move = world.plan.history.value().moves.at(0);
  EXPECT_EQ(move.destination, "n2");
  EXPECT_EQ(move.cpu, nanos_of(kCpu, 1));
  EXPECT_EQ(move.cpu_usage, nanos_of(kCpu, 300));

  move.owner = "another";
  move.node = "n9";
  move.time_ns -= 60 * kNanosPerUnit;
  const auto evicted_after = [&move](World& of) {
    of.plan = rebalance(of.policy, of.snapshot, {{move}, {}});
    return of.evicted();
  };
  EXPECT_THAT(evicted_after(world), ElementsAre("p1", "p2")) << "n2 uses 15.5 %";
  move.cpu_usage = nanos_of(kCpu, 700);
  EXPECT_THAT(evicted_after(world), IsEmpty()) << "n2 uses 35.5 %";
  move.cpu_usage = 0;
  move.cpu = nanos_of(kCpu, 700);
  EXPECT_THAT(evicted_after(world), IsEmpty()) << "it was not measured, and requests 700m";
  World upstream = world_in("upstream");
  EXPECT_THAT(evicted_after(upstream), ElementsAre("p1", "p2"));

  world.policy.profiles.push_back(world.policy.profiles.front());
  world.plan = rebalance(world.policy, world.snapshot);
  EXPECT_THAT(world.evicted(), ElementsAre("p1", "p2")) << "the next profile: n2 uses 30.5 %";
}

TEST(LowNodeUtilization, WhatAnEarlierProfileEvictedIsGoneFromItsNode) {
  const auto evicted_in = [](const std::string& compat) {
    World world = plan_for(
        low("{thresholds: {cpu: 40}, targetThresholds: {cpu: 50}, metricsUtilization: {source: "
            "KubernetesMetrics}}",
            "{}", "compat: " + compat + ", metricsProviders: [{source: KubernetesMetrics}], "),
        std::vector<std::string>{node_text("n1"), node_text("n2")} +
            pods_text("p", 4, "n1", {.cpu = "1m"}),
        {node_metrics("n1", "1500m"), node_metrics("n2", "10m"), pod_metrics("p1", "300m"),
         pod_metrics("p2", "300m"), pod_metrics("p3", "300m"), pod_metrics("p4", "300m")});
    world.policy.profiles.push_back(world.policy.profiles.front());
    world.plan = rebalance(world.policy, world.snapshot);
    return world.evicted();
  };
  EXPECT_THAT(evicted_in("fixed"), ElementsAre("p1", "p2")) << "n1 uses 45 % without them";
  EXPECT_THAT(evicted_in("upstream"), ElementsAre("p1", "p2", "p3", "p4"));
}

TEST(LowNodeUtilization, RequestsAreNotAMeasuredUsage) {
  const World world = plan_for(low(kCpu30To50, "{}", "compat: fixed, "), hot_and_empty());
  const Move move = world.plan.history.value().moves.at(0);
  EXPECT_EQ(move.cpu, nanos_of(kCpu, 200));
  EXPECT_EQ(move.cpu_usage, 0);
}

TEST(LowNodeUtilization, SmoothsSamplesInTheOrderOfTheirCollection) {
  const World world = plan_for(
      low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, metricsUtilization: {source: "
          "KubernetesMetrics}}",
          "{}", "metricsProviders: [{source: KubernetesMetrics}], "),
      {node_text("n1"), node_text("n2")},
      {node_metrics("n1", "1000m"), node_metrics("n1", "2000m"), node_metrics("n2", "0")});
  EXPECT_EQ(world.run().nodes.at(0).usage.at("cpu"), 1100);
}

// Collect() keeps the first quantity; amounts are rounded up only where they are shown.
TEST(LowNodeUtilization, KeepsTheFractionOfAFirstSample) {
  const World world = plan_for(
      low("{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}, metricsUtilization: {source: "
          "KubernetesMetrics}}",
          "{}", "metricsProviders: [{source: KubernetesMetrics}], "),
      {node_text("n1"), node_text("n2"), node_text("n3")},
      {node_metrics("n1", "1500m"), node_metrics("n2", "10400u"), node_metrics("n3", "10400u")});
  EXPECT_EQ(world.run().nodes.at(1).usage.at("cpu"), 11);
  ASSERT_TRUE(world.run().total_available);
  EXPECT_EQ(world.run().total_available->at("cpu"), 1980);  // 2000m - 20.8m = 1979.2m
}

TEST(WeightedMean, RoundsHalfAwayFromZero) {
  EXPECT_EQ(weighted_mean(1000, 2000), 1100);
  EXPECT_EQ(weighted_mean(5, 0), 5);  // 4.5
  EXPECT_EQ(weighted_mean(0, 4), 0);
}

// (1 - beta) is 0.09999999999999998.
TEST(WeightedMean, WeighsTheSampleALittleLessThanATenth) {
  EXPECT_EQ(weighted_mean(0, 5), 0);
  EXPECT_EQ(weighted_mean(100, 965), 186);
}

TEST(LowNodeUtilization, EvictsOnePodPerNodeByPrometheus) {
  const std::string top =
      "metricsProviders: [{source: Prometheus, prometheus: {url: 'http://p'}}], ";
  const std::string args =
      "{thresholds: {MetricResource: 30}, targetThresholds: {MetricResource: 50}, "
      "metricsUtilization: {source: Prometheus, prometheus: {query: q}}";
  const std::string vector =
      R"({"status": "success", "data": {"resultType": "vector", "result": [
          {"metric": {"instance": "n1"}, "value": [1, "0.57"]},
          {"metric": {"instance": "n2"}, "value": [1, "0.1"]},
          {"metric": {"instance": "unknown"}, "value": [1, "0.9"]}]}})";
  const World one = plan_for(low(args + "}", "{}", top), hot_and_empty(), {vector});
  EXPECT_EQ(one.run().nodes.at(0).usage.at("MetricResource"), 56);
  EXPECT_THAT(one.evicted(), ElementsAre("p1"));
  const World two =
      plan_for(low(args + ", evictionLimits: {node: 2}}", "{}", top), hot_and_empty(), {vector});
  EXPECT_THAT(two.evicted(), ElementsAre("p1", "p2"));
}

// By Prometheus' shares: n1 and n3 0.9, n2 0.1.
World by_shares(const std::string& compat, const std::string& limits = "") {
  const std::string vector =
      R"({"status": "success", "data": {"resultType": "vector", "result": [
          {"metric": {"instance": "n1"}, "value": [1, "0.9"]},
          {"metric": {"instance": "n2"}, "value": [1, "0.1"]},
          {"metric": {"instance": "n3"}, "value": [1, "0.9"]}]}})";
  return plan_for(
      low("{thresholds: {MetricResource: 30}, targetThresholds: {MetricResource: 50}, "
          "metricsUtilization: {source: Prometheus, prometheus: {query: q}}" +
              limits + "}",
          "{}",
          "compat: " + compat +
              ", metricsProviders: [{source: Prometheus, prometheus: {url: 'http://p'}}], "),
      std::vector<std::string>{node_text("n1"), node_text("n2"), node_text("n3")} +
          pods_text("p", 2, "n1", {.cpu = "500m"}) + pods_text("q", 2, "n3", {.cpu = "500m"}),
      {vector});
}

// What a pod will add to a share is unknown, so it counts as what it requests of the node.
TEST(LowNodeUtilization, BookingsCountInSharesOfPrometheus) {
  const World fixed = by_shares("fixed");
  EXPECT_THAT(fixed.evicted(), ElementsAre("p1")) << "n2 uses 35 % with it";
  ASSERT_EQ(fixed.plan.evictions.size(), 3U);
  EXPECT_EQ(fixed.plan.evictions.back().refused, "no other node has room for it");
  EXPECT_THAT(by_shares("upstream").evicted(), ElementsAre("p1", "q1"));

  World later = by_shares("fixed");
  Move move = later.plan.history.value().moves.at(0);
  EXPECT_EQ(move.destination, "n2");
  move.owner = "another";
  move.node = "n9";
  move.time_ns -= 60 * kNanosPerUnit;
  later.plan = rebalance(later.policy, later.snapshot, {{move}, {}});
  EXPECT_EQ(later.node_class("n2"), NodeClass::appropriate) << "35 % with what is booked";
  EXPECT_THAT(later.evicted(), IsEmpty());
  move.cpu_usage = nanos_of(kCpu, 100);
  later.plan = rebalance(later.policy, later.snapshot, {{move}, {}});
  EXPECT_THAT(later.evicted(), ElementsAre("p1")) << "it uses 5 %, so n2 uses 40 % with p1";
}

TEST(LowNodeUtilization, TheNextSharesDecideBeforeANodeLosesAnotherPod) {
  const auto evicted_by_two = [](const std::string& compat, const std::string& limits = "") {
    World world = by_shares(compat, limits);
    world.policy.profiles.push_back(world.policy.profiles.front());
    for (ClusterPod& each : world.snapshot.pods) each.request.at(kCpu) = nanos_of(kCpu, 50);
    world.plan = rebalance(world.policy, world.snapshot);
    return world.evicted();
  };
  EXPECT_THAT(evicted_by_two("fixed"), ElementsAre("p1", "q1"));
  EXPECT_THAT(evicted_by_two("upstream"), ElementsAre("p1", "q1", "p2", "q2"));
  EXPECT_THAT(evicted_by_two("fixed", ", evictionLimits: {node: 1}"), ElementsAre("p1", "q1"))
      << "so many for one sample";
  EXPECT_THAT(evicted_by_two("fixed", ", evictionLimits: {node: 2}"),
              ElementsAre("p1", "p2", "q1", "q2"));
}

// The shares may be means over minutes.
TEST(LowNodeUtilization, SharesMayStillHaveWhatTheLastPlanMoved) {
  const auto evicted_after = [](std::int64_t seconds, const std::string& compat,
                                const std::string& limits = "") {
    World world = by_shares(compat, limits);
    for (ClusterPod& each : world.snapshot.pods) each.request.at(kCpu) = nanos_of(kCpu, 50);
    Move move;
    move.owner = "another";
    move.node = "n1";
    move.time_ns = kNow - seconds * kNanosPerUnit;
    world.plan = rebalance(world.policy, world.snapshot, {{move}, {}});
    return world.evicted();
  };
  EXPECT_THAT(evicted_after(600, "fixed"), ElementsAre("q1"));
  EXPECT_THAT(evicted_after(601, "fixed"), ElementsAre("p1", "q1"));
  EXPECT_THAT(evicted_after(600, "fixed", ", evictionLimits: {node: 2}"),
              ElementsAre("p1", "q1", "q2"));
  EXPECT_THAT(evicted_after(60, "upstream"), ElementsAre("p1", "q1"));
}

TEST(HighNodeUtilization, EmptiesTheLeastUsedNodes) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2"),
                                                node_text("n3", {.cordoned = true})} +
                       pods_text("p", 2, "n1") + pods_text("q", 8, "n2", {.cpu = "200m"}) +
                       pods_text("r", 8, "n3", {.cpu = "200m"});
  const World world = plan_for(high("{thresholds: {cpu: 20}}"), cluster);
  EXPECT_EQ(world.node_class("n1"), NodeClass::source);
  EXPECT_EQ(world.node_class("n2"), NodeClass::destination);
  EXPECT_EQ(world.node_class("n3"), NodeClass::excluded);
  EXPECT_THAT(world.evicted(), ElementsAre("p1", "p2"));
  EXPECT_EQ(world.run().total_available->at("cpu"), 400);
}

TEST(HighNodeUtilization, StopsWhenTheDestinationsAreFull) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 4, "n1") + pods_text("q", 9, "n2", {.cpu = "200m"});
  const World world = plan_for(high("{thresholds: {cpu: 20, pods: 50}}"), cluster);
  EXPECT_EQ(world.run().total_available->at("pods"), 1);
  EXPECT_THAT(world.evicted(), ElementsAre("p1"));
}

TEST(HighNodeUtilization, OnlyMovesPodsThatNameAThresholdResource) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2"),
                                                pod_text("with", "n1", {.cpu = "0"})} +
                       pods_text("q", 8, "n2", {.cpu = "200m"});
  for (const auto& [resource, count] : {std::pair("cpu", 1U), std::pair("x.com/gpu", 0U)}) {
    const World world = plan_for(high("{thresholds: {" + std::string(resource) +
                                      ": 20}, evictionModes: [OnlyThresholdingResources]}"),
                                 cluster);
    EXPECT_THAT(world.evicted(), SizeIs(count)) << resource;
  }
}

TEST(HighNodeUtilization, DoesNothingIfAllNodesAreUnderutilized) {
  const World world = plan_for(high("{thresholds: {cpu: 90}}"), hot_and_empty());
  EXPECT_EQ(world.run().outcome, "all nodes are underutilized");
}

}  // namespace
}  // namespace forestall::rebalance::test
