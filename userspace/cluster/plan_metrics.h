// SPDX-License-Identifier: Apache-2.0
// What a plan needs beside the lists of the API server: the answers of Prometheus.
#pragma once

#include <optional>

#include "base/clock.h"
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
              std::optional<PrometheusSettings> prometheus);

  // For one plan, in place of one that is not done().
  void begin();
  void cancel();
  void advance();
  [[nodiscard]] bool done() const { return !prometheus_ || prometheus_->done(); }
  // REQUIRES: done() after begin().
  void add_to(rebalance::Snapshot& snapshot) const;
  [[nodiscard]] std::optional<MonotonicTime> due() const;

 private:
  const Clock& clock_;
  std::optional<PrometheusQueries> prometheus_;
  std::optional<RequestSender> prometheus_sender_;
};

}  // namespace forestall::cluster
