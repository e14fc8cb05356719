// SPDX-License-Identifier: Apache-2.0
// Random clusters with measured usage, over several plans: what must hold of each of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "rebalance/cluster_view.h"
#include "rebalance/default_evictor.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

constexpr int kNodeCount = 6;
constexpr int kNodeMib = 4096;
constexpr int kIntervalSeconds = 300;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr int kReportSeconds = 30;
constexpr int kPlans = 12;  // within the memory's time

enum class Measure : std::uint8_t { kubernetes, prometheus, reports };
constexpr Measure kMeasures[] = {Measure::kubernetes, Measure::prometheus, Measure::reports};

struct MeasuredPod {
  std::string name;
  int node = 0;
  int owner = 0;  // of 5
  int age = 0;    // seconds
  int cpu = 0;    // thousandths, requested and used
  int mib = 0;    // used
  bool is_known = true;
  bool is_important = false;  // its priority is above the threshold
  bool is_replacement = false;
};

class MeasuredCluster {
 public:
  explicit MeasuredCluster(unsigned seed) : engine_(seed) {
    const int pods = 15 + upto(20);
    for (int i = 0; i < pods; ++i) {
      // The first nodes are fuller.
      pods_.push_back({fmt::format("p{:02}", i),
                       std::min(upto(kNodeCount - 1), upto(kNodeCount - 1)), upto(4),
                       7200 + upto(3600), upto(150), 100 + upto(600), upto(9) > 0, upto(7) == 0});
    }
  }

  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }

  [[nodiscard]] int used_on(int node) const {
    int used = 0;
    for (const MeasuredPod& each : pods_) used += each.node == node ? each.mib : 0;
    return std::min(used, kNodeMib - 1);
  }
  [[nodiscard]] int hot_nodes(Measure by) const {
    // Above the target, or less than 10 % available, which a destination of NodePressure keeps.
    const int most = by == Measure::reports ? 90 : 60;
    int hot = 0;
    for (int i = 0; i < kNodeCount; ++i) {
      hot += std::lround(100.0 * used_on(i) / kNodeMib) > most ? 1 : 0;
    }
    return hot;
  }
  [[nodiscard]] const MeasuredPod& pod(std::string_view name) const {
    return *std::ranges::find(pods_, name, &MeasuredPod::name);
  }

  [[nodiscard]] std::vector<std::string> objects(Measure by) const {
    std::vector<std::string> all;
    for (int i = 0; i < kNodeCount; ++i) {
      all.push_back(node_text(name_of(i), {.memory = "4Gi", .pods = "12"}));
    }
    for (const MeasuredPod& each : pods_) {
      all.push_back(pod_text(
          each.name, name_of(each.node),
          {.cpu = fmt::format("{}m", each.cpu),
           // Prometheus measures no pods, so the plan counts what they request.
           .memory = by == Measure::prometheus ? fmt::format("{}Mi", each.mib) : "0",
           .space = space_of(each),
           .owner = fmt::format("ReplicaSet/rs{}", each.owner),
           .priority = each.is_important ? "60" : "1",
           .metadata = fmt::format(R"(, "creationTimestamp": "{}")", time_text(each.age))}));
    }
    if (by == Measure::reports) add_reports(all);
    return all;
  }

  [[nodiscard]] std::vector<std::string> metrics(Measure by) const {
    std::vector<std::string> all;
    std::string samples;
    for (int i = 0; i < kNodeCount; ++i) {
      all.push_back(fmt::format(
          R"({{"kind": "NodeMetrics", "metadata": {{"name": "{}"}}, "usage": {{"cpu": "100m",)"
          R"( "memory": "{}Mi"}}}})",
          name_of(i), used_on(i)));
      samples += fmt::format(R"({}{{"metric": {{"instance": "{}"}}, "value": [0, "{}"]}})",
                             i == 0 ? "" : ",", name_of(i), used_on(i) / double{kNodeMib});
    }
    for (const MeasuredPod& each : pods_) {
      const std::string memory =
          each.is_known ? fmt::format(R"(, "memory": "{}Mi")", each.mib) : "";
      all.push_back(
          fmt::format(R"({{"kind": "PodMetrics", "metadata": {{"name": "{}", "namespace": "{}"}},)"
                      R"( "containers": [{{"name": "c", "usage": {{"cpu": "{}m"{}}}}}]}})",
                      each.name, space_of(each), each.cpu, memory));
    }
    if (by == Measure::kubernetes) return all;
    if (by == Measure::reports) return {};
    return {R"({"status": "success", "data": {"resultType": "vector", "result": [)" + samples +
            "]}}"};
  }

  // The replacements run where the plan booked room, and time passes.
  void apply(const World& world) {
    for (MeasuredPod& each : pods_) each.age += kIntervalSeconds;
    for (const PodEviction& each : world.plan.evictions) {
      if (!each.refused.empty()) continue;
      const std::string_view name = world.snapshot.pods[each.pod].name;
      MeasuredPod& moved = *std::ranges::find(pods_, name, &MeasuredPod::name);
      moved.name += "x";
      moved.is_replacement = true;
      moved.age = kIntervalSeconds;
      if (each.destination) moved.node = static_cast<int>(*each.destination);
    }
  }

  std::mt19937& engine() { return engine_; }

 private:
  static std::string name_of(int node) { return fmt::format("n{}", node); }
  static std::string space_of(const MeasuredPod& pod) { return pod.owner % 2 == 0 ? "a" : "b"; }
  // So many seconds before the plan, at noon.
  static std::string time_text(int age) {
    const int second = 12 * 3600 - age;
    return fmt::format("2026-01-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60,
                       second % 60);
  }
  // Each node grows by 1 MiB in a second, and its threshold is 256 MiB below its memory.
  void add_reports(std::vector<std::string>& all) const {
    for (int i = 0; i < kNodeCount; ++i) {
      std::string pods;
      for (const MeasuredPod& each : pods_) {
        if (each.node != i || !each.is_known) continue;
        pods += fmt::format(
            R"({}{{"namespace": "{}", "name": "{}", "workingSet": "{}Mi", "growthPerSecond":)"
            R"( "{}Ki"}})",
            pods.empty() ? "" : ",", space_of(each), each.name, each.mib, each.mib);
      }
      const int headroom = kNodeMib - 256 - used_on(i);
      for (int age = 2 * kReportSeconds; age >= 0; age -= kReportSeconds) {
        all.push_back(fmt::format(
            R"({{"apiVersion": "forestall.dev/v1alpha1", "kind": "NodeReport", "metadata":)"
            R"( {{"name": "{0}"}}, "status": {{"time": "{1}", "memory": {{"capacity": "4Gi",)"
            R"( "workingSet": "{2}Mi"}}, "memoryStallPercent": {{"some": 0, "full": 0}},)"
            R"( "thresholds": [{{"signal": "memory.available", "headroom": "{3}Mi",)"
            R"( "growthPerSecond": "1Mi", "secondsToCrossing": {4}}}],)"
            R"( "lastHour": {{"evictions": 0, "oomKills": 0}}, "pods": [{5}]}}}})",
            name_of(i), time_text(age), used_on(i), headroom, std::max(headroom, 0), pods));
      }
    }
  }

  std::mt19937 engine_;
  std::vector<MeasuredPod> pods_;
};

std::string policy_by(Measure by, const std::string& compat) {
  const std::string top = fmt::format(
      "compat: {}, maxNoOfPodsToEvictPerNode: 3, maxNoOfPodsToEvictPerNamespace: 4, "
      "maxNoOfPodsToEvictTotal: 5, metricsProviders: [{{source: KubernetesMetrics}}, "
      "{{source: Prometheus, prometheus: {{url: 'http://localhost'}}}}], ",
      compat);
  const std::string evictor = "{priorityThreshold: {value: 50}}";
  switch (by) {
    case Measure::kubernetes:
      return policy_text("LowNodeUtilization",
                         "{thresholds: {memory: 40}, targetThresholds: {memory: 60}, "
                         "metricsUtilization: {source: KubernetesMetrics}}",
                         evictor, top);
    case Measure::prometheus:
      return policy_text("LowNodeUtilization",
                         "{thresholds: {MetricResource: 40}, targetThresholds: {MetricResource: "
                         "60}, evictionLimits: {node: 2}, metricsUtilization: {source: "
                         "Prometheus, prometheus: {query: q}}}",
                         evictor, top);
    case Measure::reports:
      return policy_text("NodePressure", "{secondsToCrossing: 1200}", evictor, top);
  }
  return "";
}

void expect_limits_and_filters(const World& world) {
  const ClusterView view(world.snapshot, world.policy.corrections);
  const DefaultEvictor evictor(view, world.policy.profiles[0].evictor);
  std::map<std::string_view, int> by_node;
  std::map<std::string_view, int> by_namespace;
  std::set<std::size_t> pods;
  for (const PodEviction& each : world.plan.evictions) {
    const ClusterPod& pod = world.snapshot.pods[each.pod];
    EXPECT_TRUE(evictor.filter(each.pod)) << pod.name;
    if (!each.refused.empty()) continue;
    EXPECT_LE(++by_node[pod.node], 3);
    EXPECT_LE(++by_namespace[pod.pod_namespace], 4);
    EXPECT_TRUE(pods.insert(each.pod).second) << "evicted twice: " << pod.name;
  }
  EXPECT_LE(pods.size(), 5U);
}

// No destination is above its target with what it gets, and none gets what is unknown.
void expect_destinations_below_targets(const World& world, const MeasuredCluster& cluster) {
  std::map<std::size_t, int> added;
  for (const PodEviction& each : world.plan.evictions) {
    if (!each.refused.empty()) continue;
    const MeasuredPod& pod = cluster.pod(world.snapshot.pods[each.pod].name);
    EXPECT_TRUE(pod.is_known) << pod.name;
    ASSERT_TRUE(each.destination);
    added[*each.destination] += pod.mib;
  }
  for (const auto& [node, mib] : added) {
    EXPECT_LE(100 * (cluster.used_on(static_cast<int>(node)) + mib), 60 * kNodeMib) << node;
  }
}

std::vector<std::string> evictions_of(const World& world) {
  std::vector<std::string> all;
  for (const PodEviction& each : world.plan.evictions) {
    const std::string_view to =
        each.destination ? world.snapshot.nodes[*each.destination].name : std::string_view("-");
    all.push_back(fmt::format("{} {} {} {}", world.snapshot.pods[each.pod].name, to,
                              each.reason.view(), each.refused.view()));
  }
  return all;
}

World plan_after(const std::string& policy, std::vector<std::string> objects,
                 std::vector<std::string> metrics, const PlanHistory& history) {
  World world = plan_for(policy, objects, metrics);
  world.plan = rebalance(world.policy, world.snapshot, history);
  return world;
}

struct PlanTotals {
  std::size_t moves = 0;
  std::size_t refused = 0;
  std::size_t relieved = 0;  // nodes that were hot before a plan
};

void play(Measure by, const std::string& compat, unsigned seed, PlanTotals& totals) {
  const bool fixed = compat == "fixed";
  MeasuredCluster cluster(seed);
  const std::string policy = policy_by(by, compat);
  PlanHistory history;
  for (int i = 0; i < kPlans; ++i) {
    std::vector<std::string> objects = cluster.objects(by);
    std::vector<std::string> metrics = cluster.metrics(by);
    const World world = plan_after(policy, objects, metrics, history);
    EXPECT_EQ(world.run().error, "");
    expect_limits_and_filters(world);
    for (const PodEviction& each : world.plan.evictions) {
      ++(each.refused.empty() ? totals.moves : totals.refused);
      const MeasuredPod& pod = cluster.pod(world.snapshot.pods[each.pod].name);
      const bool again = fixed && each.refused.empty() && pod.is_replacement;
      EXPECT_FALSE(again) << pod.name << " was moved less than an hour ago";
    }
    if (fixed && by == Measure::kubernetes) expect_destinations_below_targets(world, cluster);
    std::ranges::shuffle(objects, cluster.engine());
    std::ranges::shuffle(metrics, cluster.engine());
    EXPECT_EQ(evictions_of(world), evictions_of(plan_after(policy, objects, metrics, history)));
    history = world.plan.history.value_or(PlanHistory());
    for (Move& each : history.moves) each.time_ns -= kIntervalSeconds * kNanosPerSecond;
    const int hot = cluster.hot_nodes(by);
    cluster.apply(world);
    if (fixed) {
      EXPECT_LE(cluster.hot_nodes(by), hot);
    }
    totals.relieved += static_cast<std::size_t>(std::max(hot - cluster.hot_nodes(by), 0));
    if (testing::Test::HasFailure()) return;
  }
}

class MeasuredPlanProperty : public testing::TestWithParam<const char*> {};

TEST_P(MeasuredPlanProperty, FiltersAndLimitsHoldAndFixedMovesNoPodTwice) {
  for (const Measure by : kMeasures) {
    PlanTotals totals;
    for (unsigned seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(fmt::format("measure {}, seed {}", static_cast<int>(by), seed));
      play(by, GetParam(), seed, totals);
      if (HasFailure()) return;
    }
    EXPECT_GT(totals.moves, 25U) << static_cast<int>(by);
    if (GetParam() == std::string_view("fixed")) {
      EXPECT_GT(totals.relieved, 0U) << static_cast<int>(by);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Compat, MeasuredPlanProperty, testing::Values("upstream", "fixed"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace forestall::rebalance::test
