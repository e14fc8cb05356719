// SPDX-License-Identifier: Apache-2.0
// LowNodeUtilization by what is measured: what is unknown, and what a move relieves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rebalance/usage.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "cpu" and "memory", each with a comma before it unless it is the first; empty: none.
std::string usage_text(const std::string& cpu, const std::string& memory) {
  std::string text;
  if (!cpu.empty()) text = fmt::format(R"("cpu": "{}")", cpu);
  if (!memory.empty()) text += fmt::format(R"({}"memory": "{}")", text.empty() ? "" : ", ", memory);
  return "{" + text + "}";
}

std::string node_sample(const std::string& name, const std::string& cpu,
                        const std::string& memory = "100") {
  return fmt::format(R"({{"kind": "NodeMetrics", "metadata": {{"name": "{}"}}, "usage": {}}})",
                     name, usage_text(cpu, memory));
}

std::string pod_sample(const std::string& name, const std::vector<std::string>& usages) {
  std::string containers;
  for (const std::string& each : usages) {
    containers +=
        fmt::format(R"({}{{"name": "c", "usage": {}}})", containers.empty() ? "" : ", ", each);
  }
  return fmt::format(
      R"({{"kind": "PodMetrics", "metadata": {{"name": "{}", "namespace": "default"}},
          "containers": [{}]}})",
      name, containers);
}

World measured_plan(const std::string& compat, const std::string& args,
                    const std::vector<std::string>& cluster,
                    const std::vector<std::string>& metrics) {
  const std::string top =
      "compat: " + compat + ", metricsProviders: [{source: KubernetesMetrics}], ";
  const std::string all = "{" + args + ", metricsUtilization: {source: KubernetesMetrics}}";
  return plan_for(policy_text("LowNodeUtilization", all, "{}", top), cluster, metrics);
}

constexpr const char* kCpu30To50 = "thresholds: {cpu: 30}, targetThresholds: {cpu: 50}";

// n1 is at 75 %; two pods of 300m bring it below 50 %.
std::vector<std::string> hot_node() {
  return std::vector<std::string>{node_text("n1"), node_text("n2")} +
         pods_text("p", 4, "n1", {.cpu = "1m"});
}

std::vector<std::string> samples_with(const std::vector<std::string>& first_pod) {
  std::vector<std::string> samples{node_sample("n1", "1500m"), node_sample("n2", "10m"),
                                   pod_sample("p1", first_pod)};
  for (const char* const name : {"p2", "p3", "p4"}) {
    samples.push_back(pod_sample(name, {usage_text("300m", "10")}));
  }
  return samples;
}

std::string refusal_of(const World& world, const std::string& pod) {
  for (const PodEviction& each : world.plan.evictions) {
    if (world.snapshot.pods[each.pod].name == pod) return std::string(each.refused.view());
  }
  return "not considered";
}

// The descheduler adds up the containers with a value.
TEST(UnknownUsage, AContainerWithoutAValueKeepsItsPod) {
  const auto metrics = samples_with({usage_text("300m", "10"), usage_text("", "10")});
  EXPECT_THAT(measured_plan("upstream", kCpu30To50, hot_node(), metrics).evicted(),
              ElementsAre("p1", "p2"));
  const World fixed = measured_plan("fixed", kCpu30To50, hot_node(), metrics);
  EXPECT_THAT(fixed.evicted(), ElementsAre("p2", "p3"));
  EXPECT_EQ(refusal_of(fixed, "p1"), "what it uses is unknown");
}

TEST(UnknownUsage, APodWithoutAnyValueOfATrackedResourceStays) {
  for (const auto& containers :
       {std::vector<std::string>{usage_text("", "10")},
        std::vector<std::string>{usage_text("300m", "")}, std::vector<std::string>{}}) {
    for (const char* const compat : {"upstream", "fixed"}) {
      SCOPED_TRACE(compat);
      EXPECT_THAT(measured_plan(compat, kCpu30To50, hot_node(), samples_with(containers)).evicted(),
                  ElementsAre("p2", "p3"));
    }
  }
}

// Its metrics' Memory() is 0 without a value.
TEST(UnknownUsage, ANodeWithoutAValueIsUnusedOnlyForTheDescheduler) {
  std::vector<std::string> metrics = samples_with({usage_text("300m", "10")});
  metrics[1] = node_sample("n2", "10m", "");
  const World upstream = measured_plan("upstream", kCpu30To50, hot_node(), metrics);
  EXPECT_THAT(upstream.evicted(), ElementsAre("p1", "p2"));
  EXPECT_EQ(upstream.run().nodes.at(1).usage.at("memory"), 0);
  const World fixed = measured_plan("fixed", kCpu30To50, hot_node(), metrics);
  EXPECT_THAT(fixed.evicted(), IsEmpty());
  EXPECT_THAT(fixed.run().error, HasSubstr("unable to find \"memory\""));
}

// Plans are made for 12:00:00.
std::string sampled_at(const std::string& time, std::string sample) {
  return sample.insert(1, fmt::format(R"("timestamp": "2026-01-01T{}Z", )", time));
}

TEST(UnknownUsage, APodWithAnOldSampleStays) {
  for (const char* const time : {"11:57:59", "12:02:01"}) {
    auto metrics = samples_with({usage_text("300m", "10")});
    metrics[2] = sampled_at(time, metrics[2]);
    EXPECT_THAT(measured_plan("upstream", kCpu30To50, hot_node(), metrics).evicted(),
                ElementsAre("p1", "p2"));
    const World fixed = measured_plan("fixed", kCpu30To50, hot_node(), metrics);
    EXPECT_THAT(fixed.evicted(), ElementsAre("p2", "p3"));
    EXPECT_EQ(refusal_of(fixed, "p1"), "what it uses is unknown");
  }
}

TEST(UnknownUsage, ANodeWithAnOldSampleIsAnError) {
  auto metrics = samples_with({usage_text("300m", "10")});
  metrics[1] = sampled_at("11:55:00", metrics[1]);
  EXPECT_THAT(measured_plan("upstream", kCpu30To50, hot_node(), metrics).evicted(),
              ElementsAre("p1", "p2"));
  const World fixed = measured_plan("fixed", kCpu30To50, hot_node(), metrics);
  EXPECT_THAT(fixed.evicted(), IsEmpty());
  EXPECT_THAT(fixed.run().error,
              HasSubstr("metrics of node \"n2\" are 300 s old, of at most 120 s"));
  // The last sample decides.
  metrics.push_back(sampled_at("11:58:00", node_sample("n2", "10m")));
  EXPECT_THAT(measured_plan("fixed", kCpu30To50, hot_node(), metrics).evicted(),
              ElementsAre("p1", "p2"));
}

TEST(UnknownUsage, ALaterSampleWithoutAValueMovesTheMeanOnlyForTheDescheduler) {
  Amounts first;
  first.at(kCpu) = nanos_of(kCpu, 1000);
  const auto after_empty = [&](bool absent_is_zero) {
    Amounts mean = first;
    add_sample(mean, Amounts(), absent_is_zero);
    return counted(kCpu, mean.of(kCpu));
  };
  EXPECT_EQ(after_empty(true), 900);
  EXPECT_EQ(after_empty(false), 1000);
}

// n1 is short of memory. "idle" is of lower priority, and uses cpu only.
TEST(UsefulMoves, APodThatUsesNothingOfWhatIsShortStays) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       std::vector<std::string>{pod_text("idle", "n1", {.priority = "1"}),
                                                pod_text("large", "n1", {.priority = "2"})};
  const std::vector<std::string> metrics{node_sample("n1", "1500m", "2400"),
                                         node_sample("n2", "10m", "1"),
                                         pod_sample("idle", {usage_text("900m", "0")}),
                                         pod_sample("large", {usage_text("1m", "1200")})};
  const std::string args = "thresholds: {memory: 30}, targetThresholds: {memory: 50}";
  EXPECT_THAT(measured_plan("upstream", args, cluster, metrics).evicted(),
              ElementsAre("idle", "large"));
  const World fixed = measured_plan("fixed", args, cluster, metrics);
  EXPECT_THAT(fixed.evicted(), ElementsAre("large"));
  EXPECT_EQ(refusal_of(fixed, "idle"), "it uses nothing of what its node is short of");
}

TEST(UsefulMoves, APodThatIsShortOfNothingButItsPlaceMayMove) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 6, "n1", {.cpu = "0"});
  const std::string policy =
      policy_text("LowNodeUtilization", "{thresholds: {pods: 20}, targetThresholds: {pods: 50}}",
                  "{}", "compat: fixed, ");
  EXPECT_THAT(plan_for(policy, cluster).evicted(), ElementsAre("p1"));
}

// By Prometheus: n2 and n3 are at their target, and all pods are BestEffort.
TEST(UsefulMoves, PodsWithoutRequestsDoNotPileUpByPrometheus) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2")} +
                       pods_text("p", 4, "n1", {.cpu = "0"});
  const std::string sample =
      R"({"status": "success", "data": {"resultType": "vector", "result": [
      {"metric": {"instance": "n1"}, "value": [0, "0.9"]},
      {"metric": {"instance": "n2"}, "value": [0, "0.5"]}]}})";
  const auto plan_in = [&](const std::string& compat, const std::string& thresholds,
                           const std::vector<std::string>& pods) {
    return plan_for(policy_text("LowNodeUtilization",
                                "{" + thresholds +
                                    ", evictionLimits: {node: 3}, metricsUtilization: {source: "
                                    "Prometheus, prometheus: {query: q}}}",
                                "{}",
                                "compat: " + compat +
                                    ", metricsProviders: [{source: Prometheus, prometheus: {url: "
                                    "'http://localhost'}}], "),
                    pods, {sample});
  };
  const std::string at_target =
      "thresholds: {MetricResource: 50}, targetThresholds: {MetricResource: 50}";
  EXPECT_THAT(plan_in("fixed", at_target, cluster).evicted(), IsEmpty());
  const std::string below =
      "thresholds: {MetricResource: 50}, targetThresholds: {MetricResource: 60}";
  EXPECT_THAT(plan_in("upstream", below, cluster).evicted(), ElementsAre("p1", "p2", "p3"));
  const World fixed =
      plan_in("fixed", below, cluster + std::vector<std::string>{pod_text("q", "n1")});
  EXPECT_THAT(fixed.evicted(), ElementsAre("q"));
  EXPECT_EQ(refusal_of(fixed, "p1"), "it uses nothing of what its node is short of");
}

// Only memory has a threshold. The cpu of n2 is used up, its memory is not.
TEST(UsefulMoves, ADestinationKeepsTheCapacityOfWhatHasNoThreshold) {
  const auto cluster = std::vector<std::string>{node_text("n1"), node_text("n2"), node_text("n3")} +
                       pods_text("p", 2, "n1", {.cpu = "0"});
  const std::string args = "thresholds: {memory: 10}, targetThresholds: {memory: 50}";
  const auto destination_with = [&](const std::string& cpu) {
    const World world = measured_plan(
        "fixed", args, cluster,
        {node_sample("n1", "1", "2400"), node_sample("n2", cpu, "600"),
         node_sample("n3", "1500m", "610"), pod_sample("p1", {usage_text("400m", "500")}),
         pod_sample("p2", {usage_text("400m", "500")})});
    EXPECT_THAT(world.evicted(), testing::Contains("p1"));
    const auto to = world.plan.evictions.at(0).destination;
    return std::string(to ? world.snapshot.nodes[*to].name : "none");
  };
  EXPECT_EQ(destination_with("1500m"), "n2");
  EXPECT_EQ(destination_with("1700m"), "n3") << "n2 would use 2,100m of 2,000m";
}

}  // namespace
}  // namespace forestall::rebalance::test
