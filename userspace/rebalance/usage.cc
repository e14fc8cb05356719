// SPDX-License-Identifier: Apache-2.0
#include "rebalance/usage.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/quotes.h"

namespace forestall::rebalance {
namespace {

std::string pod_key(std::string_view pod_namespace, std::string_view name) {
  return std::string(pod_namespace) + "/" + std::string(name);
}

// The shortest text that reads back as the same number.
std::string text_of(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

// The smoothed usage of every node with samples.
std::unordered_map<std::string_view, Amounts> smoothed(const std::vector<MetricsSample>& samples,
                                                       bool absent_is_zero) {
  std::unordered_map<std::string_view, Amounts> nodes;
  for (const MetricsSample& sample : samples) {
    add_sample(nodes[sample.name], sample.usage, absent_is_zero);
  }
  return nodes;
}

// Of nodes whose last sample is old: how old it is, in seconds.
std::unordered_map<std::string_view, std::int64_t> old_samples(
    const std::vector<MetricsSample>& samples, std::int64_t now_ns) {
  std::unordered_map<std::string_view, std::int64_t> nodes;
  for (const MetricsSample& each : samples) {
    nodes.erase(each.name);
    if (is_current(each, now_ns)) continue;
    nodes.emplace(each.name, (now_ns - *each.time_ns) / kNanosPerUnit);
  }
  return nodes;
}

// A mean of samples may be below what its pods use now.
void subtract(Amounts& measured, const Amounts& gone) {
  for (const std::string_view resource : {kCpu, kMemory}) {
    if (measured.find(resource) == nullptr) continue;
    Nanos& amount = measured.at(resource);
    amount = std::max<Nanos>(amount - gone.of(resource), 0);
  }
}

}  // namespace

std::vector<std::string> tracked_resources(const Thresholds& thresholds, MetricsSource source) {
  if (source == MetricsSource::prometheus) return {std::string(kMetricResource)};
  std::set<std::string> tracked{std::string(kCpu), std::string(kMemory), std::string(kPods)};
  for (const auto& [resource, percent] : thresholds) tracked.insert(resource);
  return {tracked.begin(), tracked.end()};
}

Nanos share_on(const Node& node, Nanos cpu, Nanos memory) {
  constexpr double kWhole = 100;
  const auto percent = [&](std::string_view resource, Nanos amount) {
    const Nanos all = node.allocatable.of(resource);
    if (all <= 0 || amount <= 0) return 0.0;
    return std::min(static_cast<double>(amount) / static_cast<double>(all) * kWhole, kWhole);
  };
  return static_cast<Nanos>(std::max(percent(kCpu, cpu), percent(kMemory, memory)) *
                            static_cast<double>(kNanosPerUnit));
}

std::int64_t weighted_mean(std::int64_t before, std::int64_t sample) {
  // The descheduler's weight of the sample is 1 - 0.9 in doubles, a little less than 0.1.
  constexpr double kBeta = 0.9;
  return std::llround(kBeta * static_cast<double>(before) +
                      (1 - kBeta) * static_cast<double>(sample));
}

void add_sample(Amounts& mean, const Amounts& sample, bool absent_is_zero) {
  for (const std::string_view resource : {kCpu, kMemory}) {
    const Amount* const measured = sample.find(resource);
    if (measured == nullptr && !absent_is_zero) continue;
    const Nanos used = measured == nullptr ? 0 : measured->nanos;
    const bool is_first = mean.find(resource) == nullptr;
    Nanos& amount = mean.at(resource);
    if (is_first) {
      amount = used;
      continue;
    }
    const std::int64_t now = counted(resource, used);
    amount = nanos_of(resource, weighted_mean(counted(resource, amount), now));
  }
}

Result<std::vector<Amounts>> UsageSource::nodes(const Policy& policy,
                                                std::span<const NodeIndex> nodes) {
  switch (source_) {
    case MetricsSource::requests: break;
    case MetricsSource::kubernetes:
      if (!policy.kubernetes_metrics) return error("metrics client not initialized");
      return collected(nodes);
    case MetricsSource::prometheus:
      if (!policy.prometheus) return error("prometheus client not initialized");
      return queried(nodes);
    case MetricsSource::empty: return error("metrics source is empty");
    case MetricsSource::unknown: return error("unrecognized metrics source");
  }
  std::vector<Amounts> usages;
  for (const NodeIndex each : nodes) usages.push_back(requested(each));
  return usages;
}

Amounts UsageSource::requested(NodeIndex node) const {
  Amounts usage;
  for (const std::string& resource : tracked_) {
    usage.at(resource) = resource == kPods ? nanos_of(kPods, view_.live_pods_on(node))
                                           : view_.requested_on(node, resource);
  }
  return usage;
}

// What no sample of a node has yet. Requests and pods that are booked are in the view.
std::unordered_map<NodeIndex, Amounts> UsageSource::booked() const {
  std::unordered_map<NodeIndex, Amounts> nodes;
  if (!view_.corrects(Correction::room_first)) return nodes;
  for (const Booking& each : bookings_) {
    Amounts& amounts = nodes[each.node];
    amounts.at(kCpu) += each.cpu_usage;
    amounts.at(kMemory) += each.working_set;
  }
  return nodes;
}

// What the samples of a node still have of pods that earlier plugins of the plan evicted.
std::unordered_map<NodeIndex, Amounts> UsageSource::evicted() {
  std::unordered_map<NodeIndex, Amounts> nodes;
  if (!view_.corrects(Correction::leaving_pods)) return nodes;
  for (const PlaceChange& each : view_.place_changes()) {
    if (each.tried || !view_.summary(each.pod).live) continue;
    if (const auto usage = pod(each.pod)) nodes[each.from].add(*usage);
  }
  return nodes;
}

Result<std::vector<Amounts>> UsageSource::collected(std::span<const NodeIndex> nodes) {
  const auto booked_on = booked();
  const auto evicted_from = evicted();
  const auto means =
      smoothed(view_.snapshot().node_metrics, !view_.corrects(Correction::unknown_usage));
  std::unordered_map<std::string_view, std::int64_t> old;
  if (view_.corrects(Correction::unknown_usage)) {
    old = old_samples(view_.snapshot().node_metrics, view_.now_ns());
  }
  std::vector<Amounts> usages;
  for (const NodeIndex each : nodes) {
    const std::string_view name = view_.node(each).name;
    if (const auto age = old.find(name); age != old.end()) {
      return error("error getting node usage: the collected metrics of node " +
                   in_double_quotes(name) + " are " + std::to_string(age->second) +
                   " s old, of at most " + std::to_string(kMeasurementAgeSeconds) + " s");
    }
    const auto found = means.find(name);
    if (found == means.end()) {
      return error("error getting node usage: unable to find node " + in_double_quotes(name) +
                   " in the collected metrics");
    }
    Amounts measured = found->second;
    if (const auto from = evicted_from.find(each); from != evicted_from.end()) {
      subtract(measured, from->second);
    }
    if (const auto on = booked_on.find(each); on != booked_on.end()) measured.add(on->second);
    measured.at(kPods) = nanos_of(kPods, view_.live_pods_on(each));
    Amounts usage;
    for (const std::string& resource : tracked_) {
      const Amount* const amount = measured.find(resource);
      if (amount == nullptr) {
        return error("error getting node usage: unable to find " + in_double_quotes(resource) +
                     " resource for collected " + in_double_quotes(name) + " node metric");
      }
      usage.at(resource) = amount->nanos;
    }
    usages.push_back(std::move(usage));
  }
  return usages;
}

Result<std::span<const PrometheusSample>> UsageSource::answer() const {
  const Snapshot& snapshot = view_.snapshot();
  for (const PrometheusAnswer& each : snapshot.prometheus_answers) {
    if (each.query != query_) continue;
    if (!each.failure.empty()) return error("error getting node usage: " + each.failure);
    return std::span(each.samples);
  }
  if (snapshot.has_prometheus) return std::span(snapshot.prometheus);
  return error("error getting node usage: unable to capture prometheus metrics: no vector given");
}

Result<std::vector<Amounts>> UsageSource::queried(std::span<const NodeIndex> nodes) const {
  std::unordered_map<std::string_view, Amounts> by_instance;
  for (const PrometheusSample& sample : TRY(answer())) {
    if (!sample.instance) {
      return error(
          "error getting node usage: The collected metrics sample is missing 'instance' "
          "key");
    }
    if (!(sample.value >= 0 && sample.value <= 1)) {
      return error("error getting node usage: The collected metrics sample for " +
                   in_double_quotes(*sample.instance) + " has value " + text_of(sample.value) +
                   " outside of <0; 1> interval");
    }
    const double percent = sample.value * 100;
    const bool round = view_.corrects(Correction::metric_rounding);
    const auto used = static_cast<std::int64_t>(round ? std::round(percent) : percent);
    by_instance[*sample.instance].at(kMetricResource) = nanos_of(kMetricResource, used);
  }
  const auto booked_on = booked();
  std::vector<Amounts> usages;
  for (const NodeIndex each : nodes) {
    const std::string_view name = view_.node(each).name;
    const auto found = by_instance.find(name);
    if (found == by_instance.end()) {
      return error("error getting node usage: unable to find metric entry for " +
                   std::string(name));
    }
    usages.push_back(found->second);
    if (const auto on = booked_on.find(each); on != booked_on.end()) {
      usages.back().at(kMetricResource) +=
          share_on(view_.node(each), on->second.of(kCpu), on->second.of(kMemory));
    }
  }
  return usages;
}

// The descheduler adds up the containers that have the resource. If none has it, it evicts the pod
// and then ends with a nil pointer; here the pod stays, as one without metrics.
bool UsageSource::is_measured_in(const MetricsSample& sample, std::string_view resource) const {
  if (sample.usage.find(resource) == nullptr) return false;
  return !view_.corrects(Correction::unknown_usage) ||
         std::ranges::find(sample.incomplete, resource) == sample.incomplete.end();
}

void UsageSource::index_pod_metrics() {
  const auto& samples = view_.snapshot().pod_metrics;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    pod_metrics_.insert_or_assign(pod_key(samples[i].pod_namespace, samples[i].name), i);
  }
  indexed_ = true;
}

std::optional<Amounts> UsageSource::pod(PodIndex index) {
  const ClusterPod& pod = view_.pod(index);
  Amounts usage;
  usage.reserve(tracked_.size());
  if (source_ == MetricsSource::requests) {
    for (const std::string& resource : tracked_) usage.at(resource) = pod.request.of(resource);
  } else {
    if (!indexed_) index_pod_metrics();
    const auto found = pod_metrics_.find(pod_key(pod.pod_namespace, pod.name));
    if (found == pod_metrics_.end()) return std::nullopt;
    const MetricsSample& sample = view_.snapshot().pod_metrics[found->second];
    if (view_.corrects(Correction::unknown_usage) && !is_current(sample, view_.now_ns())) {
      return std::nullopt;
    }
    for (const std::string& resource : tracked_) {
      const bool is_known = resource == kPods || is_measured_in(sample, resource);
      if (!is_known) return std::nullopt;
      usage.at(resource) = sample.usage.of(resource);
    }
  }
  if (Amount const* const pods = usage.find(kPods); pods != nullptr) {
    usage.at(kPods) = nanos_of(kPods, 1);
  }
  return usage;
}

}  // namespace forestall::rebalance
