// SPDX-License-Identifier: Apache-2.0
// HighNodeUtilization with underutilized nodes as destinations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

World drained(const std::vector<std::string>& cluster, const std::string& args = "",
              const std::string& compat = "fixed") {
  return plan_for(policy_text("HighNodeUtilization", "{thresholds: {cpu: 60}" + args + "}", "{}",
                              "compat: " + compat + ", "),
                  cluster);
}

// "n1" to "nN" with a pod of 200m each on n1, 2 on n2, and so on.
std::vector<std::string> steps(int nodes) {
  std::vector<std::string> cluster;
  for (int i = 1; i <= nodes; ++i) {
    const std::string number = std::to_string(i);
    cluster = cluster + std::vector<std::string>{node_text("n" + number)} +
              pods_text("p" + number + "-", i, "n" + number, {.cpu = "200m"});
  }
  return cluster;
}

std::string destination_of(const World& world, std::size_t eviction) {
  const auto to = world.plan.evictions.at(eviction).destination;
  return to ? std::string(world.snapshot.nodes[*to].name) : "none";
}

TEST(Draining, TheLeastUsedNodeMovesToAFullerOneWhichStays) {
  EXPECT_THAT(drained(steps(2), "", "upstream").evicted(), IsEmpty());
  const World world = drained(steps(2));
  EXPECT_THAT(world.evicted(), ElementsAre("p1-1"));
  EXPECT_EQ(destination_of(world, 0), "n2");
  EXPECT_EQ(world.run().outcome, "");
}

TEST(Draining, APodNeverMovesToANodeThatWasDrained) {
  // n1 moves to n2, which stays. n3 and its pods would fit n1, which is empty then.
  const World world = drained(steps(3));
  EXPECT_THAT(world.evicted(), ElementsAre("p1-1", "p3-1", "p3-2", "p3-3"));
  EXPECT_EQ(destination_of(world, 0), "n2");
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(destination_of(world, i), "n2");
}

TEST(Draining, OtherNodesGoBeforeUnderutilizedOnes) {
  const auto cluster = steps(2) + std::vector<std::string>{node_text("n3")} +
                       pods_text("q", 7, "n3", {.cpu = "200m"});
  const World world = drained(cluster);
  EXPECT_THAT(world.evicted(), ElementsAre("p1-1", "p2-1", "p2-2"));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(destination_of(world, i), "n3");
}

TEST(Draining, ANodeTakesNoMoreThanItHas) {
  // n2 has room for one pod more, and n1 two: neither moves.
  const auto cluster =
      std::vector<std::string>{node_text("n1", {.cpu = "600m"}), node_text("n2", {.cpu = "700m"})} +
      pods_text("p", 2, "n1") + pods_text("q", 3, "n2", {.cpu = "200m"});
  const World world = plan_for(
      policy_text("HighNodeUtilization", "{thresholds: {cpu: 90}}", "{}", "compat: fixed, "),
      cluster);
  EXPECT_THAT(world.evicted(), IsEmpty());
  ASSERT_THAT(world.plan.evictions, testing::SizeIs(2));
  for (const PodEviction& each : world.plan.evictions) {
    EXPECT_EQ(each.refused, "no other node has room for it, so its node is not drained");
  }
}

// n2 is no source, and has room for two of the three pods.
TEST(Draining, ANodeIsDrainedWhollyOrNotAtAll) {
  const auto cluster = [](int pods) {
    return std::vector<std::string>{node_text("n1"), node_text("n2")} +
           pods_text("p", pods, "n1", {.cpu = "200m"}) + pods_text("q", 8, "n2", {.cpu = "200m"});
  };
  EXPECT_THAT(drained(cluster(3)).evicted(), IsEmpty());
  EXPECT_THAT(drained(cluster(2)).evicted(), ElementsAre("p1", "p2"));
  EXPECT_THAT(drained(cluster(3), "", "upstream").evicted(), testing::Not(IsEmpty()));
}

// p1-1 on n1, and n2 with room for 400m, which is no source.
std::vector<std::string> one_beside_a_full_node() {
  return std::vector<std::string>{node_text("n1"), node_text("n2"),
                                  pod_text("p1-1", "n1", {.cpu = "200m"})} +
         pods_text("q", 8, "n2", {.cpu = "200m", .owner = "ReplicaSet/q"});
}

TEST(Draining, AProtectedPodKeepsItsNode) {
  const auto evicted = [](const PodText& other) {
    return drained(one_beside_a_full_node() +
                   std::vector<std::string>{pod_text("other", "n1", other)})
        .evicted();
  };
  PodText local{.cpu = "1m", .spec = R"(, "volumes": [{"name": "v", "emptyDir": {}}])"};
  EXPECT_THAT(evicted(local), IsEmpty());
  const World world =
      drained(one_beside_a_full_node() + std::vector<std::string>{pod_text("other", "n1", local)});
  ASSERT_FALSE(world.plan.evictions.empty());
  EXPECT_EQ(world.plan.evictions[0].refused,
            "default/other is protected, so its node is not drained");
  EXPECT_EQ(world.snapshot.pods[world.plan.evictions[0].pod].name, "p1-1");
  EXPECT_THAT(evicted({.cpu = "1m", .owner = ""}), IsEmpty()) << "nothing replaces it";
  local.owner = "DaemonSet/d";
  EXPECT_THAT(evicted(local), ElementsAre("p1-1")) << "it ends with the node";
  EXPECT_THAT(evicted({.cpu = "1m", .phase = "Failed"}), ElementsAre("p1-1"));
}

// Each of the two fits n2, but not both.
TEST(Draining, TheRulesBetweenPodsCountForAllThatLeave) {
  PodText apart{.metadata = R"(, "labels": {"app": "a"})",
                .spec = R"(, "affinity": {"podAntiAffinity": {
      "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host",
      "labelSelector": {"matchLabels": {"app": "a"}}}]}})"};
  const auto cluster = [&](int pods) {
    return std::vector<std::string>{node_text("n1", {.labels = R"("host": "n1")"}),
                                    node_text("n2", {.labels = R"("host": "n2")"})} +
           pods_text("a", pods, "n1", apart) + pods_text("q", 8, "n2", {.cpu = "200m"});
  };
  EXPECT_THAT(drained(cluster(1)).evicted(), ElementsAre("a1"));
  EXPECT_THAT(drained(cluster(2)).evicted(), IsEmpty());
}

// t moves to n1, because its node has a taint.
TEST(Draining, ANodeToWhichAnEarlierPluginMovedAPodStays) {
  const std::string policy =
      "{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, compat: fixed, profiles: "
      "[{name: "
      "p, pluginConfig: [{name: HighNodeUtilization, args: {thresholds: {cpu: 60}}}, {name: "
      "RemovePodsViolatingNodeTaints, args: {}}], plugins: {deschedule: {enabled: "
      "[RemovePodsViolatingNodeTaints]}, balance: {enabled: [HighNodeUtilization]}}}]}";
  NodeText tainted;
  tainted.taints = R"({"key": "k", "effect": "NoSchedule"})";
  const World world =
      plan_for(policy, std::vector<std::string>{node_text("n1"), node_text("n2"),
                                                node_text("n3", tainted), pod_text("p", "n1"),
                                                pod_text("t", "n3", {.owner = "Job/t"})} +
                           pods_text("q", 3, "n2", {.cpu = "200m"}));
  EXPECT_THAT(world.evicted(), ElementsAre("t", "q1", "q2", "q3"));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(destination_of(world, i), "n1");
}

// Random clusters without limits: all pods leave a node, or none, and none leaves a destination.
TEST(Draining, RandomNodesAreDrainedWhollyOrNotAtAll) {
  std::size_t drained_nodes = 0;
  std::size_t kept = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    std::vector<std::string> cluster;
    for (int i = 0; i < 8; ++i) {
      const std::string node = "n" + std::to_string(i);
      cluster.push_back(node_text(node));
      for (auto left = dice() % 5; left > 0; --left) {
        const std::string name = "p" + std::to_string(cluster.size());
        cluster.push_back(pod_text(name, node,
                                   {.cpu = std::to_string(100 + dice() % 500) + "m",
                                    .owner = "ReplicaSet/" + std::to_string(dice() % 6)}));
      }
    }
    const World world = drained(cluster);
    std::map<std::string_view, std::size_t> pods;
    std::map<std::string_view, std::size_t> left;
    std::set<std::string_view> destinations;
    for (const ClusterPod& each : world.snapshot.pods) ++pods[each.node];
    for (const PodEviction& each : world.plan.evictions) {
      if (!each.refused.empty()) {
        ++kept;
        continue;
      }
      ++left[world.snapshot.pods[each.pod].node];
      destinations.insert(world.snapshot.nodes[each.destination.value()].name);
    }
    for (const auto& [node, count] : left) {
      EXPECT_EQ(count, pods.at(node)) << node;
      EXPECT_FALSE(destinations.contains(node)) << node;
    }
    drained_nodes += left.size();
    if (HasFailure()) return;
  }
  EXPECT_GT(drained_nodes, 50U);
  EXPECT_GT(kept, 20U);
}

TEST(Draining, ACordonedNodeIsDrainedFirstAndIsNoDestination) {
  const auto cluster =
      std::vector<std::string>{node_text("n1"), node_text("n2", {.cordoned = true})} +
      pods_text("p", 1, "n1") + pods_text("q", 2, "n2");
  const World world = drained(cluster);
  EXPECT_THAT(world.evicted(), ElementsAre("q1", "q2"));
  EXPECT_EQ(destination_of(world, 0), "n1");
}

TEST(Draining, ANumberOfNodesStillHolds) {
  EXPECT_THAT(drained(steps(2), ", numberOfNodes: 2").evicted(), IsEmpty());
  EXPECT_THAT(drained(steps(2), ", numberOfNodes: 1").evicted(), ElementsAre("p1-1"));
}

TEST(Draining, OnlyIncludedNamespacesLeave) {
  const auto cluster =
      steps(2) + std::vector<std::string>{pod_text("other", "n1", {.cpu = "1m", .space = "other"})};
  EXPECT_THAT(drained(cluster, ", evictableNamespaces: {include: [other]}").evicted(),
              ElementsAre("other"));
  EXPECT_THAT(drained(cluster, ", evictableNamespaces: {exclude: [other]}").evicted(),
              ElementsAre("p1-1"));
}

// n1 cannot be drained, so the pods of n2 may move there, and n2 becomes empty.
TEST(Draining, ANodeThatStaysIsADestinationAgain) {
  const auto objects =
      std::vector<std::string>{node_text("n1"), node_text("n2"), pod_text("p", "n1"),
                               pod_text("bare", "n1", {.cpu = "1m", .owner = ""})} +
      pods_text("q", 2, "n2");
  const World world = drained(objects);
  EXPECT_THAT(world.evicted(), ElementsAre("q1", "q2"));
  EXPECT_THAT(world.plan.evictions, testing::SizeIs(3)) << "and p, which is refused";
  // No pod of n1 can leave at all.
  const auto only_bare = std::vector<std::string>{
      node_text("n1"), node_text("n2"), pod_text("bare", "n1", {.cpu = "1m", .owner = ""})};
  EXPECT_THAT(drained(only_bare + pods_text("q", 2, "n2")).evicted(), ElementsAre("q1", "q2"));
  // n1 is empty, and stays so.
  const auto empty = std::vector<std::string>{node_text("n1"), node_text("n2")};
  EXPECT_THAT(drained(empty + pods_text("q", 2, "n2")).evicted(), IsEmpty());
}

}  // namespace
}  // namespace forestall::rebalance::test
