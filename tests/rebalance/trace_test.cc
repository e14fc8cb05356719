// SPDX-License-Identifier: Apache-2.0
// Recorded states under a policy: where moved pods are in the states that follow.
#include "rebalance/trace_overlay.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "descheduler/cluster_snapshot.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

constexpr std::int64_t kStateSeconds = 300;

std::string node_sample(const std::string& node, const std::string& memory) {
  return fmt::format(R"({{"kind": "NodeMetrics", "metadata": {{"name": "{}"}}, "usage": )"
                     R"({{"cpu": "100m", "memory": "{}"}}}})",
                     node, memory);
}

std::string pod_sample(const std::string& pod, const std::string& memory) {
  return fmt::format(R"({{"kind": "PodMetrics", "metadata": {{"name": "{}", "namespace": )"
                     R"("default"}}, "containers": [{{"name": "c", "usage": {{"cpu": "50m", )"
                     R"("memory": "{}"}}}}]}})",
                     pod, memory);
}

// At `index` times five minutes.
Snapshot state_of(const std::vector<std::string>& objects, int index) {
  descheduler::ClusterSnapshotReader reader;
  for (const std::string& each : objects) {
    const auto added = reader.add(each);
    EXPECT_TRUE(added) << added.error().text() << "\n" << each;
  }
  return reader.take(kNow + index * kStateSeconds * kNanosPerUnit);
}

const NodeText kOneGib{.cpu = "8", .memory = "1000Mi"};

std::vector<std::string> nodes_with(const std::string& first, const std::string& second) {
  return {node_text("n1", kOneGib), node_text("n2", kOneGib), node_sample("n1", first),
          node_sample("n2", second)};
}

// Two pods on n1.
std::vector<std::string> pods_with(const std::string& a, const std::string& b) {
  return {pod_text("a", "n1"), pod_text("b", "n1"), pod_sample("a", a), pod_sample("b", b)};
}

// n1 is hot by 950 MiB, of which the pods have 300 and 500.
std::vector<std::string> hot_state() {
  return nodes_with("950Mi", "100Mi") + pods_with("300Mi", "500Mi");
}

const ClusterPod& pod_named(const Snapshot& state, const std::string& name) {
  for (const ClusterPod& each : state.pods) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << name << " is absent";
  return state.pods.front();
}

std::int64_t mib_of(const Snapshot& state, const std::string& node) {
  for (const MetricsSample& each : state.node_metrics) {
    if (each.name == node) return counted(kMemory, each.usage.of(kMemory)) >> 20;
  }
  ADD_FAILURE() << node << " has no sample";
  return -1;
}

TEST(TraceOverlay, UsageFollowsThePodAndThePodIsNew) {
  TraceOverlay overlay;
  const PodText text{.status = R"(, "containerStatuses": [{"name": "c", "restartCount": 7}])"};
  const auto state_with = [&](int index) {
    return state_of(nodes_with("950Mi", "100Mi") +
                        std::vector{pod_text("a", "n1", text), pod_sample("a", "300Mi")},
                    index);
  };
  const Snapshot first = state_with(0);
  EXPECT_EQ(overlay.move(first.pods[0], "n2", first.taken_ns), std::nullopt);
  Snapshot second = state_with(1);
  overlay.apply(second);
  EXPECT_EQ(second.pods[0].node, "n2");
  EXPECT_EQ(second.pods[0].created_ns, first.taken_ns);
  EXPECT_NE(second.pods[0].uid, first.pods[0].uid);
  EXPECT_EQ(second.pods[0].containers[0].restarts, 0);
  EXPECT_EQ(mib_of(second, "n1"), 650);
  EXPECT_EQ(mib_of(second, "n2"), 400);
  EXPECT_FALSE(overlay.is_unknown("n1"));
  // It is the same pod for a second move.
  EXPECT_EQ(overlay.move(second.pods[0], "n1", second.taken_ns), first.taken_ns);
  Snapshot third = state_with(2);
  overlay.apply(third);
  EXPECT_EQ(third.pods[0].node, "n1");
  EXPECT_EQ(mib_of(third, "n1"), 950);
  EXPECT_NE(third.pods[0].uid, second.pods[0].uid);
}

TEST(TraceOverlay, EndsWithTheRecordedPod) {
  TraceOverlay overlay;
  const Snapshot first = state_of(hot_state(), 0);
  (void)overlay.move(pod_named(first, "a"), "n2", first.taken_ns);
  Snapshot without = state_of(nodes_with("500Mi", "100Mi") + std::vector{pod_text("b", "n1")}, 1);
  overlay.apply(without);
  EXPECT_EQ(mib_of(without, "n2"), 100);
  // Another pod of this name and UID does not follow from the move.
  Snapshot again = state_of(hot_state(), 2);
  overlay.apply(again);
  EXPECT_EQ(pod_named(again, "a").node, "n1");
}

TEST(TraceOverlay, APodWithoutAnOwnerIsGone) {
  TraceOverlay overlay;
  const auto state_with = [](int index) {
    return state_of(
        nodes_with("950Mi", "100Mi") + std::vector{pod_text("a", "n1", {.owner = ""}),
                                                   pod_sample("a", "300Mi"), pod_text("b", "n1")},
        index);
  };
  const Snapshot first = state_with(0);
  (void)overlay.move(pod_named(first, "a"), "", first.taken_ns);
  EXPECT_EQ(overlay.waiting(), 0U);
  Snapshot second = state_with(1);
  overlay.apply(second);
  ASSERT_EQ(second.pods.size(), 1U);
  EXPECT_EQ(second.pods[0].name, "b");
  EXPECT_EQ(mib_of(second, "n1"), 650);
}

TEST(TraceOverlay, WithoutAMeasurementBothNodesAreUnknown) {
  TraceOverlay overlay;
  const auto state_with = [](int index) {
    return state_of(
        nodes_with("950Mi", "100Mi") + std::vector{pod_text("a", "n1", {.memory = "200Mi"})},
        index);
  };
  const Snapshot first = state_with(0);
  (void)overlay.move(first.pods[0], "n2", first.taken_ns);
  Snapshot second = state_with(1);
  overlay.apply(second);
  EXPECT_TRUE(overlay.is_unknown("n1"));
  EXPECT_TRUE(overlay.is_unknown("n2"));
  EXPECT_EQ(mib_of(second, "n1"), 950);
  EXPECT_EQ(mib_of(second, "n2"), 300);
}

}  // namespace
}  // namespace forestall::rebalance::test
