// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "cluster/placeholder_pods.h"
#include "cluster/plan_evictions.h"
#include "exports/http_exchange.h"

namespace forestall::cluster {

// The objects of one kind, which a list and watches keep current.
struct InformerMetrics {
  bool current = false;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lists = 0;
  std::uint64_t failures = 0;
};

// Metrics of the rebalancer, under the descheduler's names where it has them, and the pages for the
// probes of its Deployment. Thread rule: page() and set_certificate_stale() from any thread,
// all others from one.
class RebalanceMetrics {
 public:
  // Series of one metric: tenants may make namespaces. The rest is counted without names.
  static constexpr std::size_t kSeriesMax = 5'000;
  // The longest time between two beats; above it the process counts as stuck.
  static constexpr Duration kBeatLongest = std::chrono::minutes(2);

  RebalanceMetrics();
  RebalanceMetrics(const RebalanceMetrics&) = delete;
  RebalanceMetrics& operator=(const RebalanceMetrics&) = delete;
  ~RebalanceMetrics();

  void eviction(const PlannedEviction& eviction, PlannedEnd end);
  // `count` evictions that a limit stopped, with its message as the result.
  void limited(const PlannedEviction& first, const std::string& limit, std::uint64_t count);
  // Counted as the descheduler does: as if it were a success.
  void dry_run_eviction(const PlannedEviction& eviction);
  void plan_made();
  void plan_failed();
  void cycle(Duration took);
  // Of its evictions in one cycle.
  void plugin(const std::string& profile, const std::string& plugin, Duration took);
  void set_leads(bool leads);
  void set_refused_pods(std::uint64_t count);
  void placeholder(PlaceholderChange change);
  // That hold their room.
  void set_placeholders(std::size_t held);
  // `resource` as in the API, such as "pods".
  void set_informer(const std::string& resource, const InformerMetrics& informer);
  // Why no plan can be made now, for /readyz; empty: one can.
  void set_not_ready(std::string why);
  void set_losses(std::uint64_t log_lines, std::uint64_t events);
  // Changed files of certificates cannot be used. From any thread.
  void set_certificate_stale(bool stale);
  // The process works; by CLOCK_MONOTONIC.
  void beat(MonotonicTime now) { last_beat_.store(to_ns(now)); }

  // /metrics, if wanted, and /healthz, /livez and /readyz.
  [[nodiscard]] exports::HttpAnswer page(const exports::HttpRequest& request, bool metrics,
                                         MonotonicTime now) const;
  [[nodiscard]] std::string text() const;

 private:
  struct Families;

  void count_eviction(const PlannedEviction& eviction, const std::string& result,
                      std::uint64_t count = 1);

  const std::unique_ptr<Families> families_;
  std::atomic<std::int64_t> last_beat_{0};
  mutable std::mutex mutex_;  // for the members below
  std::string not_ready_;
};

}  // namespace forestall::cluster
