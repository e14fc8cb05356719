// SPDX-License-Identifier: Apache-2.0
// Which measurements show whether a node of a recorded state is hot.
#include "rebalance/node_heat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rebalance/usage_shift.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kTaken = 1'000'000 * kNanosPerUnit;
constexpr Nanos kMib = Nanos{1 << 20} * kNanosPerUnit;

// n1 and n2 have 1,000 MiB each.
Snapshot bare_nodes() {
  Snapshot state;
  state.taken_ns = kTaken;
  for (const std::string_view name : {"n1", "n2"}) {
    Node& node = state.nodes.emplace_back();
    node.name = name;
    node.capacity.at(kMemory) = 1000 * kMib;
  }
  return state;
}

NodeReport report_of(std::string_view node, std::int64_t age_seconds, Nanos used) {
  NodeReport report;
  report.node = node;
  report.time_ns = kTaken - age_seconds * kNanosPerUnit;
  report.working_set = used;
  return report;
}

MetricsSample sample_of(std::string_view node, Nanos used) {
  MetricsSample sample;
  sample.name = node;
  sample.usage.at(kMemory) = used;
  return sample;
}

TEST(NodeHeat, TheReportOfAnAgentThatDiedDoesNotCount) {
  Snapshot state = bare_nodes();
  state.reports = {report_of("n1", 121, 950 * kMib), report_of("n2", 120, 950 * kMib)};
  EXPECT_THAT(heat_of_nodes(state, {}), ElementsAre(NodeHeat::unknown, NodeHeat::hot));
  // Its clock is wrong.
  state.reports = {report_of("n1", -121, 100 * kMib), report_of("n2", -120, 100 * kMib)};
  EXPECT_THAT(heat_of_nodes(state, {}), ElementsAre(NodeHeat::unknown, NodeHeat::cool));
}

TEST(NodeHeat, ASampleCountsIfItIsWhole) {
  Snapshot state = bare_nodes();
  state.node_metrics = {sample_of("n1", 100 * kMib), sample_of("n2", 950 * kMib)};
  EXPECT_THAT(heat_of_nodes(state, {}), ElementsAre(NodeHeat::cool, NodeHeat::hot));
  state.node_metrics[0].incomplete = {kMemory};
  EXPECT_THAT(heat_of_nodes(state, {}), ElementsAre(NodeHeat::unknown, NodeHeat::hot));
  state.reports = {report_of("n1", 30, 950 * kMib)};
  EXPECT_THAT(heat_of_nodes(state, {}), ElementsAre(NodeHeat::hot, NodeHeat::hot));
}

// Moves d/a from n1 to n2. Returns the nodes whose usage is unknown then.
std::unordered_set<std::string> unknown_after_move(Snapshot& state, const Amounts& request) {
  std::unordered_set<std::string> unknown;
  shift_usage(state,
              {{.pod_namespace = "d",
                .pod = "a",
                .uid = "",
                .new_uid = "",
                .from = "n1",
                .to = "n2",
                .request = &request}},
              unknown);
  return unknown;
}

TEST(UsageShift, AnOldReportDoesNotMeasureAPod) {
  for (const std::int64_t age : {30, 121}) {
    Snapshot state = bare_nodes();
    state.node_metrics = {sample_of("n1", 950 * kMib), sample_of("n2", 100 * kMib)};
    state.reports = {report_of("n1", age, 950 * kMib)};
    state.reports[0].pods.push_back(
        {.pod_namespace = "d", .name = "a", .uid = "", .working_set = 300 * kMib, .growth = {}});
    const auto unknown = unknown_after_move(state, {});
    const bool current = age == 30;
    EXPECT_EQ(unknown.empty(), current);
    EXPECT_EQ(state.node_metrics[0].usage.of(kMemory), (current ? 650 : 950) * kMib);
    EXPECT_EQ(state.node_metrics[1].usage.of(kMemory), (current ? 400 : 100) * kMib);
  }
}

TEST(NodeHeat, AnOldSampleDoesNotCount) {
  Snapshot state = bare_nodes();
  state.node_metrics = {sample_of("n1", 950 * kMib), sample_of("n2", 950 * kMib)};
  state.node_metrics[0].time_ns = kTaken - 121 * kNanosPerUnit;
  state.node_metrics[1].time_ns = kTaken - 120 * kNanosPerUnit;
  EXPECT_THAT(heat_of_nodes(state, {}), ElementsAre(NodeHeat::unknown, NodeHeat::hot));
}

// Of a pod on n1 that moves to n2, and requests 100 MiB.
std::vector<double> shares_after_move(Snapshot state) {
  state.has_prometheus = true;
  state.prometheus = {{"n1", 0.75}, {"n2", 0.5}};
  for (Node& each : state.nodes) {
    each.allocatable.at(kMemory) = 1000 * kMib;
    each.allocatable.at(kCpu) = 8 * kNanosPerUnit;
  }
  Amounts request;
  request.at(kMemory) = 100 * kMib;
  unknown_after_move(state, request);
  return {state.prometheus[0].value, state.prometheus[1].value};
}

TEST(UsageShift, SharesOfPrometheusFallWhereThePodWas) {
  Snapshot state = bare_nodes();
  MetricsSample& pod = state.pod_metrics.emplace_back(sample_of("a", 250 * kMib));
  pod.pod_namespace = "d";
  EXPECT_THAT(shares_after_move(state), ElementsAre(0.5, 0.75));
  // Of both shares the larger one.
  pod.usage.at(kCpu) = 4 * kNanosPerUnit;
  EXPECT_THAT(shares_after_move(state), ElementsAre(0.25, 1.0));
  pod.usage.at(kCpu) = 8 * kNanosPerUnit;
  EXPECT_THAT(shares_after_move(state), ElementsAre(0.0, 1.0));
}

TEST(UsageShift, AnOldSampleDoesNotMeasureAPod) {
  Snapshot state = bare_nodes();
  MetricsSample& pod = state.pod_metrics.emplace_back(sample_of("a", 250 * kMib));
  pod.pod_namespace = "d";
  pod.time_ns = kTaken - 121 * kNanosPerUnit;
  EXPECT_DOUBLE_EQ(shares_after_move(state)[0], 0.75);
}

TEST(UsageShift, AShareOfAnUnmeasuredPodOnlyRises) {
  const auto shares = shares_after_move(bare_nodes());
  EXPECT_DOUBLE_EQ(shares[0], 0.75);
  EXPECT_DOUBLE_EQ(shares[1], 0.6);
}

}  // namespace
}  // namespace forestall::rebalance::test
