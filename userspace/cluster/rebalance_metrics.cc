// SPDX-License-Identifier: Apache-2.0
#include "cluster/rebalance_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <set>
#include <utility>

#include "exports/metric_labels.h"
#include "exports/metrics_server.h"

namespace forestall::cluster {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

// Seconds.
const Histogram::BucketBoundaries kBuckets{0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 300};

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// A counter that only grows, set to its present value.
void raise(Counter& counter, std::uint64_t value) {
  const double more = static_cast<double>(value) - counter.Value();
  if (more > 0) counter.Increment(more);
}

const char* result_of(PlannedEnd end) {
  if (end == PlannedEnd::background) return "background";
  return end == PlannedEnd::evicted ? "success" : "error";
}

}  // namespace

struct RebalanceMetrics::Families {
  prometheus::Registry registry;
  prometheus::Family<Counter>& evicted =
      prometheus::BuildCounter()
          .Name("descheduler_pods_evicted_total")
          .Help("Evictions by result, plugin, profile, namespace and node, as the descheduler's.")
          .Register(registry);
  prometheus::Family<Counter>& old_evicted =
      prometheus::BuildCounter()
          .Name("descheduler_pods_evicted")
          .Help("Old name of descheduler_pods_evicted_total.")
          .Register(registry);
  prometheus::Family<Histogram>& strategies =
      prometheus::BuildHistogram()
          .Name("descheduler_strategy_duration_seconds")
          .Help("Time that the evictions of one plugin took in one cycle.")
          .Register(registry);
  prometheus::Family<Histogram>& old_strategies =
      prometheus::BuildHistogram()
          .Name("descheduler_descheduler_strategy_duration_seconds")
          .Help("Old name of descheduler_strategy_duration_seconds.")
          .Register(registry);
  Histogram& old_loop = prometheus::BuildHistogram()
                            .Name("descheduler_descheduler_loop_duration_seconds")
                            .Help("Old name of descheduler_loop_duration_seconds.")
                            .Register(registry)
                            .Add({}, kBuckets);
  Histogram& loop = prometheus::BuildHistogram()
                        .Name("descheduler_loop_duration_seconds")
                        .Help("Time from the begin of a cycle to the end of its last eviction.")
                        .Register(registry)
                        .Add({}, kBuckets);
  prometheus::Family<Counter>& ends = prometheus::BuildCounter()
                                          .Name("forestall_rebalance_evictions_total")
                                          .Help("Planned evictions by what became of them.")
                                          .Register(registry);
  prometheus::Family<Counter>& plans = prometheus::BuildCounter()
                                           .Name("forestall_rebalance_plans_total")
                                           .Help("Cycles with and without a plan.")
                                           .Register(registry);
  Counter& made = plans.Add({{"result", "made"}});
  Counter& failed = plans.Add({{"result", "failed"}});
  Gauge& leads = prometheus::BuildGauge()
                     .Name("forestall_rebalance_leader")
                     .Help("1 if this process may evict.")
                     .Register(registry)
                     .Add({});
  Gauge& refused = prometheus::BuildGauge()
                       .Name("forestall_rebalance_refused_pods")
                       .Help("Pods that the API server refused to evict lately.")
                       .Register(registry)
                       .Add({});
  prometheus::Family<Counter>& placeholders =
      prometheus::BuildCounter()
          .Name("forestall_rebalance_placeholders_total")
          .Help(
              "Placeholders that were created, held their room, failed, or were removed, lost "
              "or left.")
          .Register(registry);
  Gauge& held = prometheus::BuildGauge()
                    .Name("forestall_rebalance_placeholders")
                    .Help("Placeholders that hold the room of a move.")
                    .Register(registry)
                    .Add({});
  prometheus::Family<Gauge>& informers_current =
      prometheus::BuildGauge()
          .Name("forestall_rebalance_informer_current")
          .Help("1 if the objects of the resource are current; else no plan is made.")
          .Register(registry);
  prometheus::Family<Gauge>& informer_objects = prometheus::BuildGauge()
                                                    .Name("forestall_rebalance_informer_objects")
                                                    .Help("Stored objects of the resource.")
                                                    .Register(registry);
  prometheus::Family<Gauge>& informer_bytes =
      prometheus::BuildGauge()
          .Name("forestall_rebalance_informer_bytes")
          .Help("Approximate memory of the stored objects of the resource.")
          .Register(registry);
  prometheus::Family<Counter>& informer_lists =
      prometheus::BuildCounter()
          .Name("forestall_rebalance_informer_lists_total")
          .Help("Complete lists of the resource that were requested.")
          .Register(registry);
  prometheus::Family<Counter>& informer_failures =
      prometheus::BuildCounter()
          .Name("forestall_rebalance_informer_failures_total")
          .Help("Lists and watches of the resource that failed.")
          .Register(registry);
  Counter& lines = prometheus::BuildCounter()
                       .Name("forestall_rebalance_log_lines_dropped_total")
                       .Help("Lines of the log that were lost.")
                       .Register(registry)
                       .Add({});
  Counter& events = prometheus::BuildCounter()
                        .Name("forestall_rebalance_events_dropped_total")
                        .Help("Evictions and reported failures that no Event has.")
                        .Register(registry)
                        .Add({});
  Gauge& certificate =
      prometheus::BuildGauge()
          .Name("forestall_rebalance_certificate_stale")
          .Help("1 if changed files of certificates cannot be used: the former ones are in force.")
          .Register(registry)
          .Add({});
  std::set<std::map<std::string, std::string>> series;  // of `evicted`

  Families() {
    for (const char* const family : {"descheduler_build_info", "forestall_build_info"}) {
      prometheus::BuildGauge()
          .Name(family)
          .Help("1, with the version of Forestall.")
          .Register(registry)
          .Add({{"version", FORESTALL_VERSION}})
          .Set(1);
    }
  }
};

RebalanceMetrics::RebalanceMetrics() : families_(std::make_unique<Families>()) {}
RebalanceMetrics::~RebalanceMetrics() = default;

void RebalanceMetrics::count_eviction(const PlannedEviction& eviction, const std::string& result,
                                      std::uint64_t count) {
  std::map<std::string, std::string> labels{
      {"result", result},
      {"strategy", exports::plain(eviction.plugin)},
      {"profile", exports::plain(eviction.profile)},
      {"namespace", exports::plain(eviction.pod.pod_namespace)},
      {"node", exports::plain(eviction.node)}};
  if (!families_->series.contains(labels)) {
    if (families_->series.size() >= kSeriesMax) {
      labels["namespace"] = "";
      labels["node"] = "";
    } else {
      families_->series.insert(labels);
    }
  }
  families_->evicted.Add(labels).Increment(static_cast<double>(count));
  families_->old_evicted.Add(labels).Increment(static_cast<double>(count));
}

void RebalanceMetrics::limited(const PlannedEviction& first, const std::string& limit,
                               std::uint64_t count) {
  families_->ends.Add({{"end", "limited"}}).Increment(static_cast<double>(count));
  count_eviction(first, limit, count);
}

void RebalanceMetrics::eviction(const PlannedEviction& eviction, PlannedEnd end) {
  families_->ends.Add({{"end", std::string(to_string(end))}}).Increment();
  // It was not requested.
  if (end != PlannedEnd::abandoned) count_eviction(eviction, result_of(end));
}

void RebalanceMetrics::dry_run_eviction(const PlannedEviction& eviction) {
  families_->ends.Add({{"end", "dry-run"}}).Increment();
  count_eviction(eviction, "success");
}

void RebalanceMetrics::plan_made() {
  families_->made.Increment();
}
void RebalanceMetrics::plan_failed() {
  families_->failed.Increment();
}
void RebalanceMetrics::cycle(Duration took) {
  families_->loop.Observe(seconds_of(took));
  families_->old_loop.Observe(seconds_of(took));
}
void RebalanceMetrics::plugin(const std::string& profile, const std::string& plugin,
                              Duration took) {
  const std::map<std::string, std::string> labels{{"strategy", exports::plain(plugin)},
                                                  {"profile", exports::plain(profile)}};
  families_->strategies.Add(labels, kBuckets).Observe(seconds_of(took));
  families_->old_strategies.Add(labels, kBuckets).Observe(seconds_of(took));
}
void RebalanceMetrics::set_leads(bool leads) {
  families_->leads.Set(leads ? 1 : 0);
}
void RebalanceMetrics::set_refused_pods(std::uint64_t count) {
  families_->refused.Set(static_cast<double>(count));
}
void RebalanceMetrics::placeholder(PlaceholderChange change) {
  families_->placeholders.Add({{"change", std::string(to_string(change))}}).Increment();
}
void RebalanceMetrics::set_placeholders(std::size_t held) {
  families_->held.Set(static_cast<double>(held));
}
void RebalanceMetrics::set_informer(const std::string& resource, const InformerMetrics& informer) {
  const std::map<std::string, std::string> labels{{"resource", resource}};
  families_->informers_current.Add(labels).Set(informer.current ? 1 : 0);
  families_->informer_objects.Add(labels).Set(static_cast<double>(informer.objects));
  families_->informer_bytes.Add(labels).Set(static_cast<double>(informer.bytes));
  raise(families_->informer_lists.Add(labels), informer.lists);
  raise(families_->informer_failures.Add(labels), informer.failures);
}
void RebalanceMetrics::set_not_ready(std::string why) {
  const std::lock_guard lock(mutex_);
  not_ready_ = std::move(why);
}
void RebalanceMetrics::set_losses(std::uint64_t log_lines, std::uint64_t events) {
  raise(families_->lines, log_lines);
  raise(families_->events, events);
}

void RebalanceMetrics::set_certificate_stale(bool stale) {
  families_->certificate.Set(stale ? 1 : 0);
}

std::string RebalanceMetrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

exports::HttpAnswer RebalanceMetrics::page(const exports::HttpRequest& request, bool metrics,
                                           MonotonicTime now) const {
  if (metrics && request.path == "/metrics") return {200, exports::kMetricsType, text()};
  if (request.path == "/healthz" || request.path == "/livez" || request.path == "/readyz") {
    if (now - from_ns(last_beat_.load()) > kBeatLongest) {
      return {503, exports::kPlainType, "the rebalancer is stuck\n"};
    }
    const std::lock_guard lock(mutex_);
    if (request.path != "/readyz" || not_ready_.empty()) return {200, exports::kPlainType, "ok\n"};
    return {503, exports::kPlainType, "no current state of the cluster: " + not_ready_ + '\n'};
  }
  return {404, exports::kPlainType,
          "not found; available: /metrics, /healthz, /livez and /readyz\n"};
}

}  // namespace forestall::cluster
