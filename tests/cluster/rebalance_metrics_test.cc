// SPDX-License-Identifier: Apache-2.0
#include "cluster/rebalance_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace forestall::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlannedEviction moved(const std::string& pod_namespace) {
  return {{pod_namespace, "p", "uid"}, "n1", "prof\"ile", "NodePressure", "reason"};
}

TEST(RebalanceMetrics, ShowThatChangedCertificatesAreNotInForce) {
  RebalanceMetrics metrics;
  EXPECT_THAT(metrics.text(), HasSubstr("forestall_rebalance_certificate_stale 0\n"));
  metrics.set_certificate_stale(true);
  EXPECT_THAT(metrics.text(), HasSubstr("forestall_rebalance_certificate_stale 1\n"));
  metrics.set_certificate_stale(false);
  EXPECT_THAT(metrics.text(), HasSubstr("forestall_rebalance_certificate_stale 0\n"));
}

TEST(RebalanceMetrics, HaveTheNamesOfTheDescheduler) {
  RebalanceMetrics metrics;
  metrics.eviction(moved("shop"), PlannedEnd::evicted);
  metrics.eviction(moved("shop"), PlannedEnd::evicted);
  metrics.eviction(moved("shop"), PlannedEnd::refused_by_budget);
  metrics.eviction(moved("shop"), PlannedEnd::abandoned);
  metrics.dry_run_eviction(moved("dry"));
  metrics.cycle(std::chrono::seconds(2));
  metrics.plugin("p", "PodLifeTime", std::chrono::milliseconds(250));
  metrics.set_losses(7, 3);
  metrics.set_losses(8, 3);
  const std::string text = metrics.text();
  const std::string of =
      R"(namespace="shop",node="n1",profile="prof\"ile",result="success",strategy="NodePressure")";
  EXPECT_THAT(text, HasSubstr("descheduler_pods_evicted_total{" + of + "} 2\n"));
  EXPECT_THAT(text, HasSubstr(R"(result="error",strategy="NodePressure"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(descheduler_pods_evicted_total{namespace="dry")"));
  EXPECT_THAT(text, HasSubstr("descheduler_loop_duration_seconds_sum 2\n"));
  EXPECT_THAT(text, HasSubstr(R"(descheduler_strategy_duration_seconds_count{profile="p",strategy=)"
                              R"("PodLifeTime"} 1)"));
  EXPECT_THAT(text, HasSubstr("descheduler_build_info{version="));
  EXPECT_THAT(text, HasSubstr(R"(forestall_rebalance_evictions_total{end="abandoned"} 1)"));
  EXPECT_THAT(text, HasSubstr("forestall_rebalance_log_lines_dropped_total 8\n"));
  EXPECT_THAT(text, HasSubstr("forestall_rebalance_events_dropped_total 3\n"));
}

TEST(RebalanceMetrics, CountLimitsByTheirMessage) {
  RebalanceMetrics metrics;
  metrics.limited(moved("shop"), "maximum number of evicted pods per node reached", 3);
  const std::string text = metrics.text();
  const std::string of =
      R"({namespace="shop",node="n1",profile="prof\"ile",result="maximum number )"
      R"(of evicted pods per node reached",strategy="NodePressure"} 3)";
  EXPECT_THAT(text, HasSubstr("descheduler_pods_evicted_total" + of));
  EXPECT_THAT(text, HasSubstr(R"(forestall_rebalance_evictions_total{end="limited"} 3)"));
}

// Dashboards may still use them.
TEST(RebalanceMetrics, HaveTheOldNamesOfTheDeschedulerToo) {
  RebalanceMetrics metrics;
  metrics.eviction(moved("shop"), PlannedEnd::evicted);
  metrics.cycle(std::chrono::seconds(2));
  metrics.plugin("p", "PodLifeTime", std::chrono::milliseconds(250));
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr(R"(descheduler_pods_evicted{namespace="shop",node="n1",)"));
  EXPECT_THAT(text, HasSubstr("descheduler_descheduler_loop_duration_seconds_sum 2\n"));
  EXPECT_THAT(text, HasSubstr("descheduler_descheduler_strategy_duration_seconds_count{profile="
                              R"("p",strategy="PodLifeTime"} 1)"));
}

TEST(RebalanceMetrics, AreBounded) {
  RebalanceMetrics metrics;
  for (std::size_t i = 0; i < RebalanceMetrics::kSeriesMax + 10; ++i) {
    metrics.eviction(moved("n" + std::to_string(i)), PlannedEnd::evicted);
  }
  metrics.eviction(moved("n0"), PlannedEnd::evicted);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr(R"(total{namespace="n0",node="n1",profile="prof\"ile",result=)"
                              R"("success",strategy="NodePressure"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(total{namespace="",node="",profile="prof\"ile",result="success",)"
                              R"(strategy="NodePressure"} 10)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(namespace="n5000")")));
}

TEST(RebalanceMetrics, AnswerProbesWhileTheProcessWorks) {
  RebalanceMetrics metrics;
  const MonotonicTime now = SystemClock().now();
  const auto code_of = [&](std::string_view path, bool page, Duration later) {
    return metrics.page({.path = path, .host = {}}, page, now + later).status;
  };
  EXPECT_EQ(code_of("/livez", true, std::chrono::hours(1)), 503) << "no step yet";
  metrics.beat(now);
  for (const char* const path : {"/healthz", "/livez", "/readyz"}) {
    EXPECT_EQ(code_of(path, false, RebalanceMetrics::kBeatLongest), 200);
    EXPECT_EQ(code_of(path, false, RebalanceMetrics::kBeatLongest + Duration(1)), 503);
  }
  EXPECT_EQ(code_of("/metrics", true, {}), 200);
  EXPECT_EQ(code_of("/metrics", false, {}), 404);
  EXPECT_EQ(code_of("/", true, {}), 404);
}

}  // namespace
}  // namespace forestall::cluster
