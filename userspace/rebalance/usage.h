// SPDX-License-Identifier: Apache-2.0
// What nodes and pods use, by requests or as measured by metrics.k8s.io or Prometheus.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "rebalance/cluster_view.h"
#include "rebalance/move_memory.h"
#include "rebalance/policy.h"

namespace forestall::rebalance {

// The resources that a utilization plugin tracks: those of its thresholds, and cpu, memory, pods.
// With Prometheus exactly MetricResource. Sorted.
[[nodiscard]] std::vector<std::string> tracked_resources(const Thresholds& thresholds,
                                                         MetricsSource source);

class UsageSource {
 public:
  // `view` and `bookings` must outlive this object.
  // `query`: of Prometheus.
  UsageSource(const ClusterView& view, MetricsSource source, std::vector<std::string> tracked,
              const std::vector<Booking>& bookings, std::string query = {})
      : view_(view),
        source_(source),
        tracked_(std::move(tracked)),
        bookings_(bookings),
        query_(std::move(query)) {}

  [[nodiscard]] const std::vector<std::string>& tracked() const { return tracked_; }

  // Usage of each node, in the order of `nodes`. If room-first is corrected, with what is booked
  // there, in shares from Prometheus by share_on(). If leaving-pods is corrected,
  // without the measured pods that the plan has evicted. The first error of a node ends it.
  [[nodiscard]] Result<std::vector<Amounts>> nodes(const Policy& policy,
                                                   std::span<const NodeIndex> nodes);

  [[nodiscard]] bool is_measured() const { return source_ != MetricsSource::requests; }
  // Prometheus does not measure pods.
  [[nodiscard]] bool measures_pods() const { return source_ != MetricsSource::prometheus; }
  // Nothing: not measured, of a tracked resource in no container. If unknown-usage is corrected,
  // also if one container lacks it, or if the sample is old. REQUIRES: measures_pods().
  [[nodiscard]] std::optional<Amounts> pod(PodIndex pod);

 private:
  [[nodiscard]] Amounts requested(NodeIndex node) const;
  [[nodiscard]] Result<std::vector<Amounts>> collected(std::span<const NodeIndex> nodes);
  [[nodiscard]] Result<std::span<const PrometheusSample>> answer() const;
  [[nodiscard]] Result<std::vector<Amounts>> queried(std::span<const NodeIndex> nodes) const;
  [[nodiscard]] std::unordered_map<NodeIndex, Amounts> booked() const;
  [[nodiscard]] std::unordered_map<NodeIndex, Amounts> evicted();
  void index_pod_metrics();
  [[nodiscard]] bool is_measured_in(const MetricsSample& sample, std::string_view resource) const;

  const ClusterView& view_;
  MetricsSource source_;
  std::vector<std::string> tracked_;
  const std::vector<Booking>& bookings_;
  std::string query_;
  std::unordered_map<std::string, std::size_t> pod_metrics_;  // by namespace/name
  bool indexed_ = false;
};

// What a pod will add to a share that Prometheus measures, of an unknown resource: the larger one
// of the shares of cpu and memory that it uses, or requests, of the node.
[[nodiscard]] Nanos share_on(const Node& node, Nanos cpu, Nanos memory);

// The amount by which new samples move the mean of a node's usage: 0.9 of the old value and
// 1 - 0.9 of the new one, rounded half away from zero.
[[nodiscard]] std::int64_t weighted_mean(std::int64_t before, std::int64_t sample);

// Moves the mean of a node's cpu and memory by a sample of it. A first sample is kept as it is,
// with fractions of what counted() counts. `absent_is_zero`: of a resource that the sample lacks,
// as in the descheduler; otherwise the mean stays.
void add_sample(Amounts& mean, const Amounts& sample, bool absent_is_zero);

}  // namespace forestall::rebalance
