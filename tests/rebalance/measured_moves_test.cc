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
    containers += fmt::format(R"({}{{"name": "c", "usage": {}}})", containers.empty() ? "" : ", ",
                              each);
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
  for (const auto& containers : {std::vector<std::string>{usage_text("", "10")},
                                 std::vector<std::string>{usage_text("300m", "")},
                                 std::vector<std::string>{}}) {
    for (const char* const compat : {"upstream", "fixed"}) {
      SCOPED_TRACE(compat);
      EXPECT_THAT(
          measured_plan(compat, kCpu30To50, hot_node(), samples_with(containers)).evicted(),
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

}  // namespace
}  // namespace forestall::rebalance::test
