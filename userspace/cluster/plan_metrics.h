// SPDX-License-Identifier: Apache-2.0
// What a plan needs beside the lists of the API server: the answers of Prometheus, and with
// `compat: upstream` the smoothed use of nodes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/node_usage_collector.h"
#include "cluster/prometheus_queries.h"
#include "cluster/request_sender.h"
#include "kubernetes/http_client.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// Thread rule: the client's thread.
class PlanMetrics {
 public:
  // `prometheus`: nothing if the policy has no such provider. All others outlive this.
  PlanMetrics(kubernetes::HttpClient& client, const Clock& clock, const rebalance::Policy& policy,
              std::optional<PrometheusSettings> prometheus, std::function<bool()> leads);

  // For one plan, in place of one that is not done().
  void begin();
  void cancel();
  // Cancels, and drops the use of nodes.
  void leadership_lost();
  void advance();
  [[nodiscard]] bool done() const {
    return (!prometheus_ || prometheus_->done()) && (!collector_ || collector_->has_synced());
  }
  // REQUIRES: done() after begin().
  void add_to(rebalance::Snapshot& snapshot) const;
  [[nodiscard]] std::optional<MonotonicTime> due() const;
  // Why the use of nodes is not up to date; empty: it is.
  [[nodiscard]] std::string problem() const { return collector_ ? collector_->problem() : ""; }

 private:
  const Clock& clock_;
  std::optional<PrometheusQueries> prometheus_;
  std::optional<RequestSender> prometheus_sender_;
  std::optional<NodeUsageCollector> collector_;
  std::optional<RequestSender> collector_sender_;
};

}  // namespace forestall::cluster
