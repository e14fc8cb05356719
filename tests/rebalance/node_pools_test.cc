// SPDX-License-Identifier: Apache-2.0
// Profiles with a node selector of their own.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::string in_pool(const std::string& pool) {
  return R"("pool": ")" + pool + R"(")";
}

// A profile of LowNodeUtilization.
std::string low_profile(const std::string& name, const std::string& selector, int low, int high) {
  return fmt::format(
      "{{name: {}, {}pluginConfig: [{{name: LowNodeUtilization, args: {{thresholds: {{cpu: {}}}, "
      "targetThresholds: {{cpu: {}}}}}}}], plugins: {{balance: {{enabled: "
      "[LowNodeUtilization]}}}}}}",
      name, selector, low, high);
}

std::string two_profiles(const std::string& a, const std::string& b, const std::string& top = "") {
  return "{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, compat: fixed, " + top +
         "profiles: [" + a + ", " + b + "]}";
}

// Each pool has a node with 1,200m of 2,000m requested, and an empty one.
std::vector<std::string> two_pools() {
  std::vector<std::string> cluster;
  for (const std::string pool : {"a", "b"}) {
    cluster = cluster +
              std::vector<std::string>{node_text(pool + "1", {.labels = in_pool(pool)}),
                                       node_text(pool + "2", {.labels = in_pool(pool)})} +
              pods_text(pool, 6, pool + "1", {.cpu = "200m", .owner = "ReplicaSet/" + pool});
  }
  return cluster;
}

std::set<std::string> sources(const World& world) {
  std::set<std::string> names;
  for (const PodEviction& each : world.plan.evictions) {
    if (each.refused.empty()) names.emplace(world.snapshot.pods[each.pod].node);
  }
  return names;
}

TEST(NodePools, EachProfileHasItsNodesAndThresholds) {
  const std::string a = low_profile("a", "nodeSelector: 'pool=a', ", 20, 50);
  const World world =
      plan_for(two_profiles(a, low_profile("b", "nodeSelector: 'pool=b', ", 20, 70)), two_pools());
  EXPECT_THAT(sources(world), UnorderedElementsAre("a1")) << "b1 is below its target";
  for (const PodEviction& each : world.plan.evictions) {
    EXPECT_EQ(world.snapshot.nodes[each.destination.value()].name, "a2");
  }
  for (const ProfileRun& each : world.plan.profiles) {
    EXPECT_THAT(each.plugins.at(0).nodes, testing::SizeIs(2)) << each.name;
  }
  EXPECT_THAT(sources(plan_for(two_profiles(a, low_profile("all", "", 20, 50)), two_pools())),
              UnorderedElementsAre("a1", "b1"));
}

TEST(NodePools, ThePolicyAndTheProfileSelect) {
  const std::string a = low_profile("a", "nodeSelector: 'pool=a', ", 20, 50);
  const std::string b = low_profile("b", "nodeSelector: 'pool=b', ", 20, 50);
  EXPECT_THAT(
      sources(plan_for(two_profiles(a, b, "nodeSelector: 'pool in (b, c)', "), two_pools())),
      UnorderedElementsAre("b1"));
  const std::string none = low_profile("none", "nodeSelector: 'pool=c', ", 20, 50);
  const World world = plan_for(two_profiles(none, none), two_pools());
  EXPECT_THAT(world.evicted(), IsEmpty());
  EXPECT_EQ(world.plan.skipped, "") << "the cluster has nodes";
}

TEST(NodePools, NoSeatIsHeldForAPodOutsideThePool) {
  const std::string a = low_profile("a", "nodeSelector: 'pool=a', ", 20, 50);
  World world =
      plan_for(two_profiles(a, low_profile("b", "nodeSelector: 'pool=b', ", 20, 50)), two_pools());
  const auto seats = [&world](const std::string& profile) {
    const WaitingMove of_a{profile,
                           "LowNodeUtilization",
                           "ReplicaSet/a",
                           "default",
                           "a1",
                           "",
                           EvictionLimit::total,
                           kNow - std::int64_t{4000} * 1'000'000'000};
    return rebalance(world.policy, world.snapshot, PlanHistory{{}, {of_a}}).held_seats.size();
  };
  EXPECT_EQ(seats("a"), 1U);
  EXPECT_EQ(seats("b"), 0U);
}

TEST(NodePools, OtherPluginsProcessTheNodesOfTheirProfileToo) {
  const std::string policy =
      "{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, compat: fixed, profiles: "
      "[{name: p, nodeSelector: 'pool=b', pluginConfig: [{name: PodLifeTime, args: "
      "{maxPodLifeTimeSeconds: 1}}], plugins: {deschedule: {enabled: [PodLifeTime]}}}]}";
  const PodText old{.metadata = R"(, "creationTimestamp": "2026-01-01T10:00:00Z")"};
  const World world = plan_for(
      policy, std::vector<std::string>{node_text("n1", {.labels = in_pool("a")}),
                                       node_text("n2", {.labels = in_pool("b")}),
                                       pod_text("x", "n1", old), pod_text("y", "n2", old)});
  EXPECT_THAT(world.evicted(), ElementsAre("y"));
}

}  // namespace
}  // namespace forestall::rebalance::test
