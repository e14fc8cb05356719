// SPDX-License-Identifier: Apache-2.0
// HighNodeUtilization with underutilized nodes as destinations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // n2 has room for one pod more; n1 keeps the other.
  const auto cluster = std::vector<std::string>{node_text("n1", {.cpu = "1000m"}),
                                                node_text("n2", {.cpu = "700m"})} +
                       pods_text("p", 2, "n1") + pods_text("q", 3, "n2", {.cpu = "200m"});
  const World world = plan_for(
      policy_text("HighNodeUtilization", "{thresholds: {cpu: 90}}", "{}", "compat: fixed, "),
      cluster);
  EXPECT_THAT(world.evicted(), ElementsAre("p1"));
  EXPECT_THAT(world.plan.evictions, testing::SizeIs(1)) << "no room is left at all";
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

}  // namespace
}  // namespace forestall::rebalance::test
