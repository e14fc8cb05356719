// SPDX-License-Identifier: Apache-2.0
#include "cluster/plan_metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cluster/rebalance_policy.h"

namespace forestall::cluster {
namespace {

// A policy has few queries.
constexpr std::size_t kQueriesMax = 4;

std::int64_t system_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

PlanMetrics::PlanMetrics(kubernetes::HttpClient& client, const Clock& clock,
                         const rebalance::Policy& policy,
                         std::optional<PrometheusSettings> prometheus, std::function<bool()> leads)
    : clock_(clock) {
  if (collects_node_metrics(policy)) {
    collector_.emplace(std::move(leads));
    collector_sender_.emplace(client, *collector_, clock, 1, NodeUsageCollector::kAnswerBytesMax);
  }
  std::vector<std::string> queries = prometheus_queries(policy);
  if (!prometheus || queries.empty()) return;
  prometheus_.emplace(*std::move(prometheus), std::move(queries), system_ns);
  prometheus_sender_.emplace(client, *prometheus_, clock, kQueriesMax,
                             PrometheusQueries::kAnswerBytesMax);
}

void PlanMetrics::begin() {
  if (prometheus_) prometheus_->begin(clock_.now());
}

void PlanMetrics::cancel() {
  if (prometheus_) prometheus_->cancel();
}

void PlanMetrics::leadership_lost() {
  cancel();
  if (collector_) collector_->reset();
}

void PlanMetrics::advance() {
  if (prometheus_sender_) prometheus_sender_->advance();
  if (collector_sender_) collector_sender_->advance();
}

void PlanMetrics::add_to(rebalance::Snapshot& snapshot) const {
  if (prometheus_) prometheus_->add_to(snapshot);
  if (collector_) collector_->add_to(snapshot);
}

std::optional<MonotonicTime> PlanMetrics::due() const {
  const auto queries = prometheus_sender_ ? prometheus_sender_->due() : std::nullopt;
  const auto round = collector_sender_ ? collector_sender_->due() : std::nullopt;
  if (queries && round) return std::min(*queries, *round);
  return queries ? queries : round;
}

}  // namespace forestall::cluster
