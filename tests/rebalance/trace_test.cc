// SPDX-License-Identifier: Apache-2.0
// Recorded states under a policy: where moved pods are in the states that follow.
#include "rebalance/trace_simulation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "descheduler/cluster_snapshot.h"
#include "rebalance/waiting_pods.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

constexpr std::int64_t kStateSeconds = 300;

std::string memory_sample(const std::string& node, const std::string& memory) {
  return fmt::format(R"({{"kind": "NodeMetrics", "metadata": {{"name": "{}"}}, "usage": )"
                     R"({{"cpu": "100m", "memory": "{}"}}}})",
                     node, memory);
}

std::string pod_memory_sample(const std::string& pod, const std::string& memory) {
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

Policy measured_policy(const std::string& top) {
  return plan_for(policy_text("LowNodeUtilization",
                              "{thresholds: {memory: 40}, targetThresholds: {memory: 80}, "
                              "metricsUtilization: {source: KubernetesMetrics}}",
                              "{}", top + "metricsProviders: [{source: KubernetesMetrics}], "),
                  {})
      .policy;
}

const NodeText kOneGib{.cpu = "8", .memory = "1000Mi"};

std::vector<std::string> nodes_with(const std::string& first, const std::string& second) {
  return {node_text("n1", kOneGib), node_text("n2", kOneGib), memory_sample("n1", first),
          memory_sample("n2", second)};
}

// Two pods on n1.
std::vector<std::string> pods_with(const std::string& a, const std::string& b) {
  return {pod_text("a", "n1"), pod_text("b", "n1"), pod_memory_sample("a", a),
          pod_memory_sample("b", b)};
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

TEST(TraceSimulation, AMovedPodStaysMovedInTheStatesThatFollow) {
  const Policy policy = measured_policy("compat: fixed, ");
  TraceSimulation with({}, "fixed", &policy);
  TraceSimulation without({}, "none", nullptr);
  for (int i = 0; i < 4; ++i) {
    const Snapshot state = state_of(hot_state(), i);
    with.play(state);
    without.play(state);
    // The recorded state is as it was.
    EXPECT_EQ(pod_named(state, "a").node, "n1");
  }
  const SimulationRun moved = std::move(with).take();
  EXPECT_EQ(moved.error, "");
  ASSERT_EQ(moved.points.size(), 4U);
  EXPECT_EQ(moved.points[0].hot_nodes, 1U);
  EXPECT_EQ(moved.points[0].moves, 1U);
  // In each of them n1 is hot in the recording.
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(moved.points[i].hot_nodes, 0U);
    EXPECT_EQ(moved.points[i].moves, 1U);
    EXPECT_EQ(moved.points[i].seconds, static_cast<std::int64_t>(i) * kStateSeconds);
  }
  EXPECT_EQ(moved.hot_node_minutes, 5U);
  EXPECT_EQ(moved.points[3].evictions, std::nullopt);
  EXPECT_EQ(moved.points[3].kills, std::nullopt);
  const SimulationRun none = std::move(without).take();
  EXPECT_EQ(none.hot_node_minutes, 15U);
  EXPECT_EQ(none.points[3].moves, 0U);
}

// Its usage goes from node to node. In the recording it never left.
std::vector<std::string> swinging_state(int index) {
  const std::vector<std::string> load =
      index % 2 == 0 ? nodes_with("950Mi", "100Mi") : nodes_with("320Mi", "800Mi");
  return load + pods_with("300Mi", "10Mi");
}

SimulationPoint swing(const Policy& policy) {
  TraceSimulation simulation({}, "swing", &policy);
  for (int i = 0; i < 6; ++i) simulation.play(state_of(swinging_state(i), i));
  const SimulationRun run = std::move(simulation).take();
  EXPECT_EQ(run.error, "");
  return run.points.back();
}

TEST(TraceSimulation, TheMemoryOfMovesEndsLoops) {
  const SimulationPoint upstream = swing(measured_policy(""));
  EXPECT_GT(upstream.loops, 0U);
  const SimulationPoint fixed = swing(measured_policy("compat: fixed, "));
  EXPECT_GT(fixed.moves, 0U);
  EXPECT_EQ(fixed.loops, 0U);
  // The memory is what ends them.
  const SimulationPoint forgetful =
      swing(measured_policy("compat: fixed, pacing: {memorySeconds: 0}, "));
  EXPECT_GT(forgetful.loops, 0U);
}

TEST(TraceSimulation, PlansOnlyAfterTheInterval) {
  const Policy policy = measured_policy("");
  TraceSimulation simulation({.interval_seconds = 600}, "upstream", &policy);
  simulation.play(state_of(nodes_with("300Mi", "100Mi") + pods_with("100Mi", "100Mi"), 0));
  simulation.play(state_of(hot_state(), 1));
  simulation.play(state_of(hot_state(), 2));
  const SimulationRun run = std::move(simulation).take();
  EXPECT_EQ(run.points[1].moves, 0U);
  EXPECT_GT(run.points[2].moves, 0U);
}

const PodText kOldPod{.memory = "200Mi",
                      .metadata = R"(, "creationTimestamp": "2026-01-01T11:00:00Z")"};

// How many of the states, at these seconds, a policy plans for that evicts one pod in each plan.
std::uint64_t plans_at(const std::vector<std::int64_t>& seconds, std::uint64_t interval) {
  const Policy policy = plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 1}", "{}",
                                             "maxNoOfPodsToEvictTotal: 1, "),
                                 {})
                            .policy;
  TraceSimulation simulation(
      {.interval_seconds = interval, .usual_gap_ns = kStateSeconds * kNanosPerUnit}, "life",
      &policy);
  Snapshot state = state_of(nodes_with("100Mi", "100Mi") + pods_text("a", 8, "n1", kOldPod), 0);
  const std::int64_t start_ns = state.taken_ns;
  for (const std::int64_t each : seconds) {
    state.taken_ns = start_ns + each * kNanosPerUnit;
    simulation.play(state);
  }
  return std::move(simulation).take().points.back().moves;
}

TEST(TraceSimulation, StatesWithJitterDoNotDelayPlans) {
  EXPECT_EQ(plans_at({0, 299, 601, 899, 1200}, 300), 5U);
  EXPECT_EQ(plans_at({0, 299, 601, 899, 1200}, 600), 3U);
  EXPECT_EQ(plans_at({0, 300, 600, 900, 1200}, 451), 3U);
  EXPECT_EQ(plans_at({0, 300, 600, 900, 1200}, 0), 5U);
}

TEST(TraceSimulation, AnUnmeasuredNodeIsUnknownNotCool) {
  TraceSimulation simulation({}, "none", nullptr);
  simulation.play(state_of(
      {node_text("n1", kOneGib), node_text("n2", kOneGib), memory_sample("n1", "950Mi")}, 0));
  simulation.play(state_of({node_text("n1", kOneGib), node_text("n2", kOneGib)}, 1));
  simulation.play(state_of({node_text("n1", kOneGib), node_text("n2", kOneGib)}, 2));
  const SimulationRun run = std::move(simulation).take();
  EXPECT_EQ(run.points[0].hot_nodes, 1U);
  EXPECT_EQ(run.points[0].unknown_nodes, 1U);
  EXPECT_EQ(run.points[1].hot_nodes, std::nullopt);
  EXPECT_EQ(run.hot_node_minutes, 5U);
  EXPECT_EQ(run.unknown_node_minutes, 15U);
}

Policy life_policy() {
  return plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 60}"), {}).policy;
}

// n1 and n3 are hot. Nothing measures the pod of n1.
std::vector<std::string> unmeasured_state() {
  return nodes_with("950Mi", "100Mi") +
         std::vector{node_text("n3", {.cpu = "8", .memory = "1000Mi", .cordoned = true}),
                     memory_sample("n3", "950Mi"), pod_text("a", "n1", kOldPod)};
}

// The run without a policy, then that with it.
std::vector<SimulationRun> compared(const Policy& policy, const std::vector<std::string>& objects,
                                    int states) {
  std::deque<TraceSimulation> simulations;
  simulations.emplace_back(TracePlayOptions{.interval_seconds = 86'400}, "none", nullptr);
  simulations.emplace_back(TracePlayOptions{.interval_seconds = 86'400}, "policy", &policy);
  for (int i = 0; i < states; ++i) {
    const Snapshot state = state_of(objects, i);
    for (TraceSimulation& each : simulations) each.play(state);
    compare_runs(simulations);
  }
  std::vector<SimulationRun> runs;
  for (TraceSimulation& each : simulations) runs.push_back(std::move(each).take());
  return runs;
}

// The move of a pod that nothing measures does not cool its node.
TEST(TraceSimulation, ComparesNodesThatEveryRunMeasures) {
  const auto runs = compared(life_policy(), unmeasured_state(), 3);
  EXPECT_EQ(runs[1].points[0].moves, 1U);
  EXPECT_EQ(runs[0].hot_node_minutes, 20);
  EXPECT_EQ(runs[0].unknown_node_minutes, 0);
  // n1 and n2 are unknown after the first state.
  EXPECT_EQ(runs[1].hot_node_minutes, 15);
  EXPECT_EQ(runs[1].unknown_node_minutes, 10);
  for (const SimulationRun& run : runs) {
    EXPECT_EQ(run.compared_hot_node_minutes, 15) << run.name;
    EXPECT_EQ(run.compared_node_minutes, 20) << run.name;
    EXPECT_EQ(run.points[0].compared_hot_nodes, 2U);
    EXPECT_EQ(run.points[1].compared_hot_nodes, 1U);
    EXPECT_EQ(run.points[1].compared_nodes, 1U);
  }
}

TEST(TraceSimulation, ComparesNothingIfNoNodeIsMeasuredInEveryRun) {
  const auto runs = compared(
      life_policy(), nodes_with("950Mi", "100Mi") + std::vector{pod_text("a", "n1", kOldPod)}, 2);
  for (const SimulationRun& run : runs) {
    EXPECT_EQ(run.points[0].compared_hot_nodes, 1U);
    EXPECT_EQ(run.points[1].compared_nodes, 0U);
    EXPECT_EQ(run.points[1].compared_hot_nodes, std::nullopt);
  }
  const auto unmeasured = compared(life_policy(), {node_text("n1", kOneGib)}, 2);
  EXPECT_EQ(unmeasured[1].compared_hot_node_minutes, std::nullopt);
  EXPECT_EQ(unmeasured[1].compared_node_minutes, 0);
}

TEST(TraceSimulation, WhetherAPlanLeavesMoreNodesHotMayBeUnknown) {
  const Policy policy = life_policy();
  const auto measured_pod = pod_memory_sample("a", "200Mi");
  const auto with_pod = [&](const std::string& second_node) {
    return compared(policy,
                    nodes_with("100Mi", second_node) +
                        std::vector{pod_text("a", "n1", kOldPod), measured_pod},
                    2)[1]
        .plans_with_more_hot_nodes;
  };
  EXPECT_EQ(with_pod("100Mi"), 0U);
  EXPECT_EQ(with_pod("850Mi"), 1U);
  // Two nodes become unknown.
  EXPECT_EQ(compared(policy, unmeasured_state(), 2)[1].plans_with_more_hot_nodes, std::nullopt);
  // No node becomes unknown, but the destination was.
  const std::vector<std::string> to_unknown{node_text("n1", kOneGib), node_text("n2", kOneGib),
                                            memory_sample("n1", "950Mi"),
                                            pod_text("a", "n1", kOldPod), measured_pod};
  EXPECT_EQ(compared(policy, to_unknown, 2)[1].plans_with_more_hot_nodes, std::nullopt);
  // An unknown node that no pod moves to stays as it was.
  const auto apart =
      nodes_with("100Mi", "850Mi") +
      std::vector{node_text("n3", {.cpu = "8", .memory = "1000Mi", .cordoned = true}),
                  pod_text("a", "n1", kOldPod), measured_pod};
  EXPECT_EQ(compared(policy, apart, 2)[1].plans_with_more_hot_nodes, 1U);
}

TEST(TraceSimulation, MinutesAreSumsOfExactTimes) {
  TraceSimulation simulation({}, "none", nullptr);
  Snapshot state = state_of(hot_state(), 0);
  for (int i = 0; i < 4; ++i) {
    simulation.play(state);
    state.taken_ns += kNanosPerUnit / 2;
  }
  const SimulationRun run = std::move(simulation).take();
  EXPECT_DOUBLE_EQ(run.hot_node_minutes.value(), 1.5 / 60);
}

TEST(TraceOverlay, UsageFollowsThePodAndThePodIsNew) {
  TraceOverlay overlay;
  const PodText text{.status = R"(, "containerStatuses": [{"name": "c", "restartCount": 7}])"};
  const auto state_with = [&](int index) {
    return state_of(nodes_with("950Mi", "100Mi") +
                        std::vector{pod_text("a", "n1", text), pod_memory_sample("a", "300Mi")},
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
    return state_of(nodes_with("950Mi", "100Mi") + std::vector{pod_text("a", "n1", {.owner = ""}),
                                                               pod_memory_sample("a", "300Mi"),
                                                               pod_text("b", "n1")},
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

TEST(TraceSimulation, AReplacementWaitsUntilANodeFits) {
  const Policy policy = life_policy();
  const PodText large{.memory = "900Mi",
                      .metadata = R"(, "creationTimestamp": "2026-01-01T11:00:00Z")"};
  const PodText recent{.memory = "500Mi",
                       .metadata = R"(, "creationTimestamp": "2026-01-01T12:00:00Z")"};
  TraceSimulation simulation({.interval_seconds = 3600}, "life", &policy);
  for (int i = 0; i < 2; ++i) {
    simulation.play(state_of({node_text("n1", kOneGib), node_text("n2", kOneGib),
                              pod_text("a", "n1", large), pod_text("other", "n2", recent)},
                             i));
  }
  const SimulationRun run = std::move(simulation).take();
  EXPECT_EQ(run.points[0].moves, 1U);
  // Its own request counts on n1 while it terminates; then n1 fits.
  EXPECT_EQ(run.points[0].waiting, 1U);
  EXPECT_EQ(run.points[1].waiting, 0U);
}

// The request of the evicted pod makes both nodes equal.
TEST(WaitingPods, OfEqualNodesNoneIsTheOneThatThePodLeaves) {
  const Snapshot state =
      state_of({node_text("n1", kOneGib), node_text("n2", kOneGib), pod_text("a", "n1"),
                pod_text("b", "n2", {.owner = "ReplicaSet/other"})},
               0);
  const std::vector<PodIndex> waiting{0};
  const std::vector<LeavingRequest> leaving{{"n1", state.pods[0].request}};
  EXPECT_EQ(place_pods(state, waiting, leaving).front(), 1U);
}

}  // namespace
}  // namespace forestall::rebalance::test
