// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_usage_collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "rebalance/amounts.h"
#include "rebalancer_fixture.h"

namespace forestall::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string node_metrics(const std::string& node, const std::string& cpu,
                         const std::string& memory) {
  return fmt::format(R"({{"kind":"NodeMetrics","metadata":{{"name":"{}"}},"usage":)"
                     R"({{"cpu":"{}","memory":"{}"}}}})",
                     node, cpu, memory);
}
std::string metrics_list(const std::string& items) {
  return R"({"kind":"NodeMetricsList","metadata":{},"items":[)" + items + "]}";
}

class NodeUsageCollectorTest : public ::testing::Test {
 protected:
  // One round that begins at `now`.
  void round(int code, const std::string& body) {
    const auto request = collector_.next(now_);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->http.target, "/apis/metrics.k8s.io/v1beta1/nodes");
    kubernetes::ResponseHead head;
    head.code = code;
    collector_.answered(request->key, head, body, std::nullopt, now_);
    now_ += NodeUsageCollector::kInterval;
  }
  // Means in thousandths of a CPU and in bytes.
  [[nodiscard]] std::map<std::string, std::pair<std::int64_t, std::int64_t>> means() const {
    rebalance::Snapshot snapshot;
    snapshot.node_metrics.emplace_back();
    collector_.add_to(snapshot);
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> all;
    for (const auto& each : snapshot.node_metrics) {
      using namespace rebalance;
      all[std::string(each.name)] = {counted(kCpu, each.usage.of(kCpu)),
                                     counted(kMemory, each.usage.of(kMemory))};
    }
    return all;
  }

  bool leads_ = true;
  MonotonicTime now_{seconds(100)};
  NodeUsageCollector collector_{[this] { return leads_; }};
};

TEST_F(NodeUsageCollectorTest, ASampleMovesTheMeanByATenth) {
  EXPECT_FALSE(collector_.has_synced());
  round(200, metrics_list(node_metrics("n1", "100m", "1000")));
  EXPECT_TRUE(collector_.has_synced());
  EXPECT_THAT(means(), ElementsAre(Pair("n1", Pair(100, 1000))));
  round(200, metrics_list(node_metrics("n1", "200m", "2006")));
  EXPECT_THAT(means(), ElementsAre(Pair("n1", Pair(110, 1101)))) << "rounded";
  // A node may be new, and one that is gone keeps its mean.
  round(200, metrics_list(node_metrics("n2", "1", "5")));
  EXPECT_THAT(means(), ElementsAre(Pair("n1", Pair(110, 1101)), Pair("n2", Pair(1000, 5))));
}

TEST_F(NodeUsageCollectorTest, AFailedRoundMovesNoMean) {
  round(503, "{}");
  EXPECT_TRUE(collector_.has_synced()) << "the plan is made, and its plugins have no use of nodes";
  EXPECT_THAT(means(), IsEmpty());
  round(200, metrics_list(node_metrics("n1", "100m", "1000")));
  EXPECT_EQ(collector_.problem(), "");
  round(500, "{}");
  EXPECT_NE(collector_.problem(), "");
  round(200, "no JSON");
  EXPECT_NE(collector_.problem(), "");
  EXPECT_THAT(means(), ElementsAre(Pair("n1", Pair(100, 1000))));
}

TEST_F(NodeUsageCollectorTest, ARoundBeginsFiveSecondsAfterTheLastOne) {
  EXPECT_EQ(collector_.due(), MonotonicTime{});
  const MonotonicTime begun = now_;
  round(200, metrics_list(""));
  EXPECT_EQ(collector_.due(), begun + seconds(5));
  EXPECT_FALSE(collector_.next(begun + milliseconds(4999)));
  ASSERT_TRUE(collector_.next(begun + seconds(5)));
  EXPECT_FALSE(collector_.next(begun + seconds(20))) << "one request at a time";
  EXPECT_EQ(collector_.due(), std::nullopt);
}

TEST_F(NodeUsageCollectorTest, ItBeginsAnewAfterTheLeadershipWasLost) {
  round(200, metrics_list(node_metrics("n1", "100m", "1000")));
  const auto late = collector_.next(now_);
  ASSERT_TRUE(late);
  leads_ = false;
  EXPECT_EQ(collector_.due(), std::nullopt);
  EXPECT_FALSE(collector_.next(now_));
  kubernetes::ResponseHead head;
  head.code = 200;
  collector_.answered(late->key, head, metrics_list(node_metrics("n1", "1", "1")), std::nullopt,
                      now_);
  EXPECT_FALSE(collector_.has_synced());
  EXPECT_THAT(means(), IsEmpty());
  leads_ = true;
  round(200, metrics_list(node_metrics("n1", "300m", "3000")));
  EXPECT_THAT(means(), ElementsAre(Pair("n1", Pair(300, 3000))));
}

TEST_F(NodeUsageCollectorTest, AnAnswerAfterTheLeadershipWasLostCountsNotLater) {
  round(200, metrics_list(node_metrics("n1", "100m", "1000")));
  const auto late = collector_.next(now_);
  ASSERT_TRUE(late);
  leads_ = false;
  kubernetes::ResponseHead head;
  head.code = 200;
  collector_.answered(late->key, head, metrics_list(node_metrics("n1", "1", "1")), std::nullopt,
                      now_);
  leads_ = true;
  EXPECT_FALSE(collector_.has_synced());
  EXPECT_THAT(means(), IsEmpty());
}

TEST_F(NodeUsageCollectorTest, LeadershipRegainedWithinARequestBeginsAnew) {
  round(200, metrics_list(node_metrics("n1", "100m", "1000")));
  const auto late = collector_.next(now_);
  ASSERT_TRUE(late);
  collector_.reset();
  kubernetes::ResponseHead head;
  head.code = 200;
  collector_.answered(late->key, head, metrics_list(node_metrics("n1", "1", "1")), std::nullopt,
                      now_);
  EXPECT_THAT(means(), IsEmpty());
  round(200, metrics_list(node_metrics("n1", "300m", "3000")));
  EXPECT_THAT(means(), ElementsAre(Pair("n1", Pair(300, 3000))));
}

constexpr const char* kMeasured = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {}}
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 30}
      targetThresholds: {cpu: 50}
      metricsUtilization: {source: KubernetesMetrics}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
)";

class MeasuredNodesTest : public RebalancerTest {
 protected:
  // Of the collector: the lister's have a limit.
  static std::size_t rounds(ClusterWithPods& cluster) {
    std::size_t count = 0;
    for (const ApiRequest& each : cluster.requests("GET", "/metrics.k8s.io/v1beta1/nodes")) {
      if (!each.target.ends_with("limit=500")) ++count;
    }
    return count;
  }
  RebalancerOptions measured(const std::string& compat) {
    RebalancerOptions options;
    options.policy = kMeasured;
    options.compat = compat;
    return options;
  }
};

TEST_F(MeasuredNodesTest, UpstreamCollectsWithAPeriodOfItsOwn) {
  ClusterWithPods cluster("a");
  JumpingClock clock;
  RebalancerOptions options = measured("upstream");
  options.interval = std::chrono::hours(1);
  const auto rebalancer = make_with(clock, cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().made == 1; }));
  EXPECT_EQ(rounds(cluster), 1U) << "the first plan waits for the first round";
  clock.jump(NodeUsageCollector::kInterval);
  EXPECT_TRUE(run_until({rebalancer.get()}, [&] { return rounds(cluster) >= 2; }));
  EXPECT_EQ(rebalancer->counts().made, 1U);
  EXPECT_THAT(cluster.requests("GET", "/metrics.k8s.io/v1beta1/nodes?limit"), IsEmpty())
      << "the plan uses the means";
}

// Its other plugins do not need them.
TEST_F(MeasuredNodesTest, MetricsThatAreRefusedEndNoPlan) {
  for (const char* const compat : {"upstream", "fixed"}) {
    ClusterWithPods cluster("a");
    cluster.set_code("/metrics.k8s.io/", 403, "pods.metrics.k8s.io is forbidden");
    ::testing::internal::CaptureStderr();
    {
      exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::warning);
      RebalancerOptions options = measured(compat);
      options.access.server = cluster.url();
      options.policy_file = "policy.yaml";
      const auto rebalancer = Rebalancer::create(options, clock_, log).value();
      ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
      EXPECT_EQ(rebalancer->counts().made, 1U) << compat;
    }
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("/v1beta1/pods: 403: pods.metrics.k8s.io is forbidden"));
  }
}

TEST_F(MeasuredNodesTest, FixedReadsForEachPlan) {
  ClusterWithPods cluster("a");
  const auto rebalancer = make(cluster, measured("fixed"));
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_EQ(rounds(cluster), 0U);
  EXPECT_FALSE(cluster.requests("GET", "/metrics.k8s.io/v1beta1/nodes?limit").empty());
}

}  // namespace
}  // namespace forestall::cluster
