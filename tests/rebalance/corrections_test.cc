// SPDX-License-Identifier: Apache-2.0
// What `compat: fixed` changes, one correction at a time: the same cluster with and without it.
#include "rebalance/corrections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const char* const kOlder = "{maxPodLifeTimeSeconds: 60}";
constexpr const char* kCreated = R"(, "creationTimestamp": "2026-01-01T10:00:00Z")";
constexpr const char* kCompat = "compat: fixed, ";

// The pods that each mode evicts.
struct Both {
  std::vector<std::string> upstream;
  std::vector<std::string> fixed;
};

Both both(const std::string& plugin, const std::string& args,
          const std::vector<std::string>& cluster, const std::string& evictor = "{}",
          const std::vector<std::string>& metrics = {}, const std::string& top = "") {
  return {plan_for(policy_text(plugin, args, evictor, top), cluster, metrics).evicted(),
          plan_for(policy_text(plugin, args, evictor, kCompat + top), cluster, metrics).evicted()};
}

std::vector<std::string> two_nodes() {
  return {node_text("n1"), node_text("n2")};
}

std::string annotated(const std::string& value, const std::string& more = "") {
  return std::string(kCreated) + R"(, "annotations": {"descheduler.alpha.kubernetes.io/evict": ")" +
         value + "\"" + more + "}";
}

TEST(Corrections, ThePolicyTurnsAllOn) {
  const auto plan = [](const std::string& top) {
    return plan_for(policy_text("PodLifeTime", kOlder, "{}", top), two_nodes()).plan;
  };
  EXPECT_TRUE(plan("").corrections.empty());
  EXPECT_TRUE(plan("compat: upstream, ").corrections.empty());
  EXPECT_EQ(plan(kCompat).corrections, Corrections::all());
}

// The node is at 80 %. Without the pod that terminates it is at 40 %.
TEST(Corrections, APodThatTerminatesCountsAsGone) {
  PodText text{.cpu = "800m", .metadata = kCreated};
  PodText leaving = text;
  leaving.metadata += R"(, "deletionTimestamp": "2026-01-01T12:00:10Z")";
  const auto cluster_with = [&](const PodText& first) {
    return two_nodes() +
           std::vector<std::string>{pod_text("a", "n1", first), pod_text("b", "n1", text)};
  };
  const char* const args = "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}";
  const auto found = both("LowNodeUtilization", args, cluster_with(leaving));
  EXPECT_THAT(found.upstream, ElementsAre("b"));
  EXPECT_THAT(found.fixed, IsEmpty());
  PodText stuck = text;
  stuck.metadata += R"(, "deletionTimestamp": "2026-01-01T11:49:59Z")";
  EXPECT_THAT(both("LowNodeUtilization", args, cluster_with(stuck)).fixed, ElementsAre("b"));
}

// Without placeholders the replacement of the heaviest pod may run anywhere. All pods are of equal
// rank. "a" hides the least, so its node would lose requests and keep its
// usage; "c" uses more memory than it requests, which the node is not short of.
TEST(Corrections, PodsThatUseMostAboveTheirRequestsGoFirst) {
  const auto sample = [](const std::string& kind, const std::string& name, const std::string& cpu,
                         const std::string& memory) {
    const std::string usage = R"("usage": {"cpu": ")" + cpu + R"(", "memory": ")" + memory + "\"}";
    return R"({"kind": ")" + kind + R"(", "metadata": {"name": ")" + name +
           R"(", "namespace": "default"}, )" +
           (kind == "PodMetrics" ? R"("containers": [{"name": "c", )" + usage + "}]}"
                                 : usage + "}");
  };
  const auto cluster = two_nodes() + std::vector<std::string>{pod_text("a", "n1", {.cpu = "300m"}),
                                                              pod_text("b", "n1", {.cpu = "50m"}),
                                                              pod_text("c", "n1", {.cpu = "250m"}),
                                                              pod_text("d", "n1", {.cpu = "10m"})};
  const auto found_with = [&](const std::string& top) {
    return both(
        "LowNodeUtilization",
        "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, metricsUtilization: {source: "
        "KubernetesMetrics}}",
        cluster, "{}",
        {sample("NodeMetrics", "n1", "1280m", "100"), sample("NodeMetrics", "n2", "10m", "100"),
         sample("PodMetrics", "a", "250m", "10"), sample("PodMetrics", "b", "200m", "10"),
         sample("PodMetrics", "c", "250m", "900"), sample("PodMetrics", "d", "80m", "10")},
        top + "metricsProviders: [{source: KubernetesMetrics}], ");
  };
  const Both booked = found_with("");
  EXPECT_THAT(booked.upstream, ElementsAre("a", "b"));
  EXPECT_THAT(booked.fixed, ElementsAre("a", "b"));
  const Both held = found_with("reserve: placeholder, ");
  EXPECT_THAT(held.fixed, ElementsAre("b", "d"));
}

// n1 is at 80 % of cpu, n2 and n4 at 40 %: neither is underutilized. n2 stays at its target of 50 %
// with one pod of 200m.
constexpr const char* kLow20To50 = "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}";

std::vector<std::string> without_low_nodes() {
  return two_nodes() + pods_text("a", 8, "n1", {.cpu = "200m"}) +
         pods_text("b", 4, "n2", {.cpu = "200m"});
}

TEST(Corrections, PodsMoveToNodesThatStayBelowTheirTargets) {
  const auto found = both("LowNodeUtilization", kLow20To50, without_low_nodes());
  EXPECT_THAT(found.upstream, IsEmpty());
  EXPECT_THAT(found.fixed, ElementsAre("a1"));
  const auto full =
      without_low_nodes() + std::vector<std::string>{pod_text("c", "n2", {.cpu = "100m"})};
  EXPECT_THAT(both("LowNodeUtilization", kLow20To50, full).fixed, IsEmpty());
}

TEST(Corrections, TheRoomOfAllDestinationsIsAvailable) {
  const auto available = [](const std::string& top) {
    const auto cluster = without_low_nodes() + std::vector<std::string>{node_text("n3")};
    const World world = plan_for(policy_text("LowNodeUtilization", kLow20To50, "{}", top), cluster);
    return world.run().total_available->at("cpu");
  };
  EXPECT_EQ(available(""), 1000) << "of n3";
  EXPECT_EQ(available(kCompat), 1200) << "of n2 and n3";
}

// n3 has room for two of the three pods that n1 must lose.
TEST(Corrections, AnUnderutilizedNodeGoesBeforeOthersBelowTheirTargets) {
  const auto cluster =
      without_low_nodes() + std::vector<std::string>{node_text("n3", {.cpu = "800m"})};
  const World world =
      plan_for(policy_text("LowNodeUtilization", kLow20To50, "{}", kCompat), cluster);
  ASSERT_THAT(world.evicted(), ElementsAre("a1", "a2", "a3"));
  EXPECT_EQ(world.node_class("n2"), NodeClass::appropriate);
  EXPECT_EQ(world.plan.evictions[0].destination, 2U);
  EXPECT_EQ(world.plan.evictions[1].destination, 2U);
  EXPECT_EQ(world.plan.evictions[2].destination, 1U) << "n3 is at its target";
}

TEST(Corrections, ANumberOfNodesStillNeedsUnderutilizedNodes) {
  const char* const args = "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, numberOfNodes: 1}";
  EXPECT_THAT(both("LowNodeUtilization", args, without_low_nodes()).fixed, IsEmpty());
  const auto one = without_low_nodes() + std::vector<std::string>{node_text("n3")};
  EXPECT_THAT(both("LowNodeUtilization", args, one).fixed, IsEmpty());
  const auto two = one + std::vector<std::string>{node_text("n4")};
  EXPECT_THAT(both("LowNodeUtilization", args, two).fixed, ElementsAre("a1", "a2", "a3"));
}

TEST(Corrections, ACordonedNodeBelowItsTargetIsNoDestination) {
  const auto cluster =
      std::vector<std::string>{node_text("n1"), node_text("n2", {.cordoned = true})} +
      pods_text("a", 8, "n1", {.cpu = "200m"}) + pods_text("b", 4, "n2", {.cpu = "200m"});
  EXPECT_THAT(both("LowNodeUtilization", kLow20To50, cluster).fixed, IsEmpty());
}

// By measured usage: n2 requests nothing and is at its target, n3 has room for one pod.
TEST(Corrections, WhatIsMeasuredAndBookedKeepsDestinationsBelowTheirTargets) {
  const auto sample = [](const std::string& name, int milli, bool of_pod = false) {
    const std::string usage =
        R"("usage": {"cpu": ")" + std::to_string(milli) + R"(m", "memory": "1"})";
    return R"({"kind": ")" + std::string(of_pod ? "PodMetrics" : "NodeMetrics") +
           R"(", "metadata": {"name": ")" + name + R"(", "namespace": "default"}, )" +
           (of_pod ? R"("containers": [{"name": "c", )" + usage + "}]}" : usage + "}");
  };
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2"), node_text("n3")} +
                       pods_text("a", 4, "n1", {.cpu = "0"});
  std::vector<std::string> metrics{sample("n1", 1600), sample("n2", 1000), sample("n3", 600)};
  for (int i = 1; i <= 4; ++i) metrics.push_back(sample("a" + std::to_string(i), 300, true));
  const auto found =
      both("LowNodeUtilization",
           "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, "
           "metricsUtilization: {source: KubernetesMetrics}}",
           cluster, "{}", metrics, "metricsProviders: [{source: KubernetesMetrics}], ");
  EXPECT_THAT(found.upstream, IsEmpty());
  EXPECT_THAT(found.fixed, ElementsAre("a1"));
}

TEST(Corrections, AnEvictAnnotationOfFalseProtects) {
  const auto found =
      both("PodLifeTime", kOlder,
           two_nodes() +
               std::vector<std::string>{pod_text("no", "n1", {.metadata = annotated("false")}),
                                        pod_text("yes", "n1", {.metadata = annotated("true")})});
  EXPECT_THAT(found.upstream, ElementsAre("no", "yes"));
  EXPECT_THAT(found.fixed, ElementsAre("yes"));
}

TEST(Corrections, AnEvictAnnotationMovesNoMirrorPod) {
  const std::string mirror = R"(, "kubernetes.io/config.mirror": "x")";
  const auto found = both("PodLifeTime", kOlder,
                          two_nodes() + std::vector<std::string>{pod_text(
                                            "p", "n1", {.metadata = annotated("true", mirror)})});
  EXPECT_THAT(found.upstream, ElementsAre("p"));
  EXPECT_THAT(found.fixed, IsEmpty());
}

TEST(Corrections, APriorityThresholdStandsForItself) {
  const auto cluster =
      two_nodes() +
      std::vector<std::string>{pod_text("high", "n1", {.priority = "100", .metadata = kCreated}),
                               pod_text("low", "n1", {.priority = "1", .metadata = kCreated})};
  const auto found = both("PodLifeTime", kOlder, cluster,
                          "{evictSystemCriticalPods: true, priorityThreshold: {value: 50}}");
  EXPECT_THAT(found.upstream, ElementsAre("high", "low"));
  EXPECT_THAT(found.fixed, ElementsAre("low"));
}

// Of two pods one has failed. And the replacement of the first evicted pod does not run yet.
TEST(Corrections, MinReplicasCountsPodsThatRun) {
  const PodText running{.metadata = kCreated};
  const auto ended =
      std::vector<std::string>{pod_text("old", "n1", {.metadata = kCreated, .phase = "Failed"})};
  const auto one = both("PodLifeTime", "{maxPodLifeTimeSeconds: 60, states: [Running]}",
                        two_nodes() + ended + pods_text("p", 1, "n1", running), "{minReplicas: 2}");
  EXPECT_THAT(one.upstream, ElementsAre("p1"));
  EXPECT_THAT(one.fixed, IsEmpty());
}

// A tenant names the owner of another namespace's pod, which is its only replica.
TEST(Corrections, MinReplicasCountsPodsOfItsNamespace) {
  const PodText running{.metadata = kCreated};
  const PodText lying{.space = "tenant", .metadata = kCreated};
  const auto found =
      both("PodLifeTime", "{maxPodLifeTimeSeconds: 60, namespaces: {include: [default]}}",
           two_nodes() + pods_text("p", 1, "n1", running) + pods_text("q", 2, "n1", lying),
           "{minReplicas: 2}");
  EXPECT_THAT(found.upstream, ElementsAre("p1"));
  EXPECT_THAT(found.fixed, IsEmpty());
}

TEST(Corrections, ADestinationsTaintsAreTheSchedulersBusiness) {
  const char* const args = "{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}}";
  const NodeText soft{.taints = R"({"key": "a", "effect": "PreferNoSchedule"})"};
  const auto found = both("LowNodeUtilization", args,
                          std::vector<std::string>{node_text("n1"), node_text("n2", soft)} +
                              pods_text("p", 6, "n1", {.cpu = "200m"}));
  EXPECT_THAT(found.upstream, IsEmpty());
  EXPECT_THAT(found.fixed, ElementsAre("p1"));
}

// 29 % of 100 pods is 29: one too many is moved otherwise.
TEST(Corrections, CapsAreExact) {
  const char* const args = "{thresholds: {pods: 10}, targetThresholds: {pods: 29}}";
  const NodeText wide{.pods = "100"};
  const auto found = both("LowNodeUtilization", args,
                          std::vector<std::string>{node_text("n1", wide), node_text("n2", wide)} +
                              pods_text("p", 30, "n1", {.cpu = "0"}));
  EXPECT_THAT(found.upstream, testing::SizeIs(2));
  EXPECT_THAT(found.fixed, testing::SizeIs(1));
}

// n2 has more bytes, n1 the higher share.
TEST(Corrections, TheFullerNodeIsFirst) {
  const char* const args = "{thresholds: {cpu: 20}, targetThresholds: {cpu: 40}}";
  const auto cluster =
      std::vector<std::string>{node_text("n1"), node_text("n2", {.memory = "9000000"}),
                               node_text("n3")} +
      pods_text("a", 9, "n1", {.cpu = "200m", .memory = "100"}) +
      pods_text("b", 5, "n2", {.cpu = "200m", .memory = "100000"});
  const auto found =
      both("LowNodeUtilization", args, cluster, "{}", {}, "maxNoOfPodsToEvictTotal: 1, ");
  EXPECT_THAT(found.upstream, ElementsAre("b1"));
  EXPECT_THAT(found.fixed, ElementsAre("a1"));
}

TEST(Corrections, AResourceWithoutAThresholdDoesNotBlock) {
  const char* const args = "{thresholds: {cpu: 30}, targetThresholds: {cpu: 50}}";
  const auto found = both("LowNodeUtilization", args,
                          two_nodes() + pods_text("p", 6, "n1", {.cpu = "200m"}) +
                              pods_text("q", 1, "n2", {.cpu = "0", .memory = "3000"}));
  EXPECT_THAT(found.upstream, IsEmpty());
  EXPECT_THAT(found.fixed, ElementsAre("p1"));
}

TEST(Corrections, APreferredNodeMustHaveRoom) {
  const std::string prefers = R"(, "affinity": {"nodeAffinity": {
      "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
      {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}})";
  const NodeText full{.cpu = "50m", .labels = R"("disk": "ssd")"};
  const auto found =
      both("RemovePodsViolatingNodeAffinity",
           "{nodeAffinityType: [preferredDuringSchedulingIgnoredDuringExecution]}",
           two_nodes() + std::vector<std::string>{node_text("n3", full),
                                                  pod_text("p", "n1", {.spec = prefers})});
  EXPECT_THAT(found.upstream, ElementsAre("p"));
  EXPECT_THAT(found.fixed, IsEmpty());
}

TEST(Corrections, SharesOfPrometheusAreRounded) {
  const char* const args =
      "{thresholds: {MetricResource: 10}, targetThresholds: {MetricResource: 56}, "
      "metricsUtilization: {source: Prometheus, prometheus: {query: q}}}";
  const std::string samples =
      R"({"status": "success", "data": {"resultType": "vector", "result": [
      {"metric": {"instance": "n1"}, "value": [0, "0.57"]},
      {"metric": {"instance": "n2"}, "value": [0, "0.05"]}]}})";
  const auto found =
      both("LowNodeUtilization", args, two_nodes() + pods_text("p", 2, "n1"), "{}", {samples},
           "metricsProviders: [{source: Prometheus, prometheus: {url: "
           "'http://localhost'}}], ");
  EXPECT_THAT(found.upstream, IsEmpty());
  EXPECT_THAT(found.fixed, ElementsAre("p1"));
}

std::string repels(const std::string& key) {
  return R"(, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
      [{"topologyKey": ")" +
         key + R"(", "labelSelector": {"matchLabels": {"app": "web"}}}]}})";
}

// n2 and n3 are in one zone; a pod that the term selects runs on n3.
TEST(Corrections, AntiAffinityCoversTheDomain) {
  const std::string web = std::string(kCreated) + R"(, "labels": {"app": "web"})";
  const NodeText zone_a{.labels = R"("zone": "a")"}, zone_b{.labels = R"("zone": "b")"};
  const std::vector<std::string> nodes{node_text("n1", zone_a), node_text("n2", zone_b),
                                       node_text("n3", {.cpu = "50m", .labels = zone_b.labels})};
  const auto other = pod_text("other", "n3", {.cpu = "0", .priority = "9", .metadata = web});
  const auto found =
      both("PodLifeTime", kOlder,
           nodes +
               std::vector<std::string>{
                   other, pod_text("p", "n1", {.metadata = kCreated, .spec = repels("zone")})},
           "{nodeFit: true, priorityThreshold: {value: 5}}");
  EXPECT_THAT(found.upstream, ElementsAre("p"));
  EXPECT_THAT(found.fixed, IsEmpty());
}

TEST(Corrections, AntiAffinityOfTheOtherPodCounts) {
  const std::string web = std::string(kCreated) + R"(, "labels": {"app": "web"})";
  const NodeText zoned{.labels = R"("zone": "b")"};
  const auto other =
      pod_text("other", "n2", {.priority = "9", .metadata = kCreated, .spec = repels("zone")});
  const auto found = both("PodLifeTime", kOlder,
                          std::vector<std::string>{node_text("n1"), node_text("n2", zoned), other,
                                                   pod_text("p", "n1", {.metadata = web})},
                          "{nodeFit: true, priorityThreshold: {value: 5}}");
  EXPECT_THAT(found.upstream, ElementsAre("p"));
  EXPECT_THAT(found.fixed, IsEmpty());
}

// n2 has room for two pods of 200m.
TEST(Corrections, RoomIsBookedForTheRestOfThePlan) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2", {.cpu = "500m"})} +
                       pods_text("p", 5, "n1", {.cpu = "200m", .metadata = kCreated});
  const auto found = both("PodLifeTime", kOlder, cluster, "{nodeFit: true}");
  EXPECT_THAT(found.upstream, ElementsAre("p1", "p2", "p3", "p4", "p5"));
  EXPECT_THAT(found.fixed, ElementsAre("p1", "p2"));
}

TEST(Corrections, APodGoesWhereFewOfItsOwnersPodsAre) {
  const auto cluster =
      std::vector<std::string>{node_text("n1"), node_text("n2"), node_text("n3")} +
      pods_text("p", 2, "n1", {.metadata = kCreated}) +
      std::vector<std::string>{pod_text("q", "n2", {.priority = "9", .metadata = kCreated})};
  const World world = plan_for(
      policy_text("PodLifeTime", kOlder, "{priorityThreshold: {value: 5}}", kCompat), cluster);
  ASSERT_THAT(world.evicted(), ElementsAre("p1", "p2"));
  EXPECT_EQ(world.plan.evictions[0].destination, 2U) << "n3 has none";
  EXPECT_EQ(world.plan.evictions[1].destination, 1U) << "n2 and n3 have one each, n2 is first";
}

// They need no room: a bare pod does not come back, and a failed one uses none.
TEST(Corrections, PodsThatDoNotComeBackNeedNoRoom) {
  const auto cluster =
      std::vector<std::string>{node_text("n1"), node_text("n2", {.cpu = "0", .pods = "0"})} +
      std::vector<std::string>{pod_text("failed", "n1", {.metadata = kCreated, .phase = "Failed"}),
                               pod_text("runs", "n1", {.metadata = kCreated})};
  EXPECT_THAT(both("PodLifeTime", kOlder, cluster).fixed, ElementsAre("failed"));
}

TEST(Corrections, EachHasANameAndAnEffect) {
  std::set<std::string_view> names;
  for (const CorrectionRow& row : correction_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.effect.empty() || row.effect.ends_with('.')) << row.name;
    EXPECT_TRUE(Corrections::all().has(row.correction));
  }
}

}  // namespace
}  // namespace forestall::rebalance::test
