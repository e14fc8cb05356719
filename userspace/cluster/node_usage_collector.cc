// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_usage_collector.h"

#include <utility>

#include "descheduler/cluster_snapshot.h"
#include "kubernetes/api_status.h"
#include "rebalance/usage.h"

namespace forestall::cluster {

void NodeUsageCollector::reset() {
  if (synced_ || sent_) ++run_;
  means_.clear();
  synced_ = false;
  sent_ = false;
  next_round_.reset();
}

std::optional<KeyedRequest> NodeUsageCollector::next(MonotonicTime now) {
  if (!leads_()) {
    reset();
    return std::nullopt;
  }
  if (sent_ || (next_round_ && now < *next_round_)) return std::nullopt;
  sent_ = true;
  next_round_ = now + kInterval;
  kubernetes::OutgoingRequest request;
  request.target = "/apis/metrics.k8s.io/v1beta1/nodes";
  request.longest = kLongest;
  return KeyedRequest{std::to_string(run_), std::move(request)};
}

void NodeUsageCollector::answered(std::string_view key, const kubernetes::ResponseHead& head,
                                  std::string_view body, const std::optional<Error>& failure,
                                  MonotonicTime) {
  if (key != std::to_string(run_)) return;
  if (!leads_()) return reset();
  sent_ = false;
  synced_ = true;
  if (failure) {
    problem_ = kubernetes::bounded_text(failure->text());
  } else if (head.code != 200) {
    problem_ = kubernetes::parse_api_status(head.code, body).text();
  } else {
    const auto added = add_round(body);
    problem_ = added ? "" : kubernetes::bounded_text(added.error().text());
  }
}

Result<void> NodeUsageCollector::add_round(std::string_view body) {
  descheduler::ClusterSnapshotReader reader;
  TRY(reader.add(std::string(body)));
  // Resources have the names of constants: the means outlive the texts of the answer.
  const rebalance::Snapshot round = reader.take(0);
  for (const rebalance::MetricsSample& each : round.node_metrics) {
    // Only plans that decide as the descheduler have these means.
    rebalance::add_sample(means_[std::string(each.name)], each.usage, true);
  }
  return {};
}

void NodeUsageCollector::add_to(rebalance::Snapshot& snapshot) const {
  snapshot.node_metrics.clear();
  for (const auto& [node, mean] : means_) {
    rebalance::MetricsSample sample;
    sample.name = snapshot.texts->keep(node);
    sample.usage = mean;
    snapshot.node_metrics.push_back(std::move(sample));
  }
}

std::optional<MonotonicTime> NodeUsageCollector::due() const {
  if (sent_ || !leads_()) return std::nullopt;
  return next_round_.value_or(MonotonicTime{});
}

}  // namespace forestall::cluster
