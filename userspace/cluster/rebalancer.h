// SPDX-License-Identifier: Apache-2.0
// `forestall rebalance` in a cluster: at intervals it reads the cluster's state, makes a plan by
// the policy and carries it out, while it leads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/background_evictions.h"
#include "cluster/cluster_state.h"
#include "cluster/cycle_plan.h"
#include "cluster/event_series.h"
#include "cluster/informer_reporter.h"
#include "cluster/leader_election.h"
#include "cluster/paced_log.h"
#include "cluster/plan_evictions.h"
#include "cluster/plan_metrics.h"
#include "cluster/rebalance_metrics.h"
#include "cluster/recent_evictions.h"
#include "cluster/refused_pods.h"
#include "cluster/report_history.h"
#include "cluster/request_sender.h"
#include "cluster/reservation_controller.h"
#include "cluster/snapshot_lister.h"
#include "cluster/tls_pages.h"
#include "exports/log.h"
#include "kubernetes/http_client.h"
#include "rebalance/plan.h"
#include "rebalance/policy.h"

namespace forestall::cluster {

struct RebalancerOptions {
  kubernetes::Access access;
  std::string policy_file;  // for messages
  std::string policy;       // its text
  std::string compat;       // "upstream", "fixed"; empty: as the policy has it
  Duration interval{};      // from the begin of a plan to that of the next; 0: one plan
  bool dry_run = false;
  bool background = false;            // webhooks may move pods (EvictionsInBackground)
  std::optional<LeaseOptions> lease;  // nothing: without election; REQUIRES: an interval
  std::string identity;               // of this process, in Events
  std::string listen;                 // IP address and port of the pages; empty: none
  bool metrics_page = true;           // besides those of the probes
  TlsOptions tls{};                   // of the pages
  // Of this pod's service account, whose token Prometheus gets if the policy names no Secret.
  std::string account_directory = std::string(kubernetes::kServiceAccountDirectory);
  std::string prometheus_ca{};             // file; empty: that of the account or the kubeconfig
  std::vector<std::string> ineffective{};  // options without an effect, for the log
};

// Of all plans so far.
struct PlanCounts {
  std::uint64_t made = 0;
  std::uint64_t failed = 0;  // without a plan
  std::map<PlannedEnd, std::uint64_t> evictions;
};

// Thread rule: one thread.
class Rebalancer {
 public:
  // NodePressure requires several reports of a node, and each list has only the last one.
  static constexpr Duration kReportsInterval = std::chrono::seconds(30);

  // `log` and `clock` outlive this. `clock` counts while the host is suspended (BoottimeClock): a
  // leader whose clock stopped would be a second one. Errors: of the policy; libcurl cannot be
  // used.
  static Result<std::unique_ptr<Rebalancer>> create(const RebalancerOptions& options,
                                                    const Clock& clock, exports::Log& log);
  Rebalancer(const Rebalancer&) = delete;
  Rebalancer& operator=(const Rebalancer&) = delete;

  // One round: waits for work, until `stop_fd` is readable or for at most `longest`, and does it.
  [[nodiscard]] Result<void> step(int stop_fd, Duration longest);
  // Without an interval: whether the plan is over, no room is reserved, and the log has it.
  [[nodiscard]] bool finished() const {
    return finished_ && log_.done() && (!rooms_ || rooms_->done());
  }
  // Drops the rest of the plan and gives the leadership up after the eviction that was sent.
  // Errors: not done within `longest`; if the eviction was not, the Lease stays. No step()
  // afterwards.
  [[nodiscard]] Result<void> withdraw(Duration longest);
  // Errors: the last plan was not made, or dropped before its end.
  [[nodiscard]] Result<void> outcome() const;
  [[nodiscard]] const PlanCounts& counts() const { return counts_; }
  [[nodiscard]] RebalanceMetrics& metrics() { return metrics_; }
  // Of the plans so far, for the next one; not of a dry run.
  [[nodiscard]] const rebalance::PlanHistory& history() const { return history_; }
  // Pods of the last plan, as "namespace/name", in the order of their evictions. What was planned
  // again after a refusal follows.
  [[nodiscard]] const std::vector<std::string>& planned() const { return planned_; }

 private:
  enum class RunPhase : std::uint8_t { idle, reading, evicting };

  Rebalancer(const RebalancerOptions& options, const Clock& clock, exports::Log& log,
             std::unique_ptr<kubernetes::HttpClient> client, rebalance::Policy policy);
  [[nodiscard]] bool leads() const { return !election_ || election_->leads(clock_.now()); }
  void advance();
  void follow_election();
  void fence_reports();
  void poll_reports();
  [[nodiscard]] Duration longest_series() const;
  [[nodiscard]] MonotonicTime cycle_due() const;
  void begin_cycle();
  [[nodiscard]] bool change_phase();
  void plan();
  void plan_again();
  void remember(const CyclePlan::Made& made);
  void measure(const PlanEvictions::Ended& ended);
  void report_evictions();
  void report_failure(const PlannedEviction& eviction, const std::string& problem);
  void report_limits();
  void remember_end(const PlanEvictions::Ended& ended);
  void report_left_out(const rebalance::Snapshot& snapshot);
  void report_losses();
  void forget_move(const PodTarget& pod);
  [[nodiscard]] ReservedRoom reserve(const PlannedEviction& eviction);
  void dry_run(const PlannedEviction& eviction);
  void report_placeholders();
  void end_plan();
  void end_cycle();
  void fail_cycle(const std::string& problem);
  [[nodiscard]] MonotonicTime due() const;

  const RebalancerOptions options_;
  const Clock& clock_;
  PacedLog log_;
  const std::unique_ptr<kubernetes::HttpClient> client_;
  const bool reports_failures_;
  const std::size_t reports_compared_;  // of a node; 0: the policy needs none
  const std::optional<rebalance::PlaceholderSettings> placeholder_;

  std::optional<LeaderElection> election_;
  ClusterState state_;
  SnapshotLister report_lister_;
  PlanMetrics plan_metrics_;
  std::optional<ReservationController> rooms_;  // not in a dry run
  PlanEvictions evictions_;
  EventSeries events_;
  std::optional<RequestSender> election_sender_;
  RequestSender report_sender_;
  RequestSender eviction_sender_;
  RequestSender event_sender_;

  RunPhase phase_ = RunPhase::idle;
  bool queries_ = false;  // of the cycle that reads: plan_metrics_ has begun
  bool finished_ = false;
  bool led_ = false;
  MonotonicTime next_cycle_{};
  MonotonicTime next_reports_{};
  MonotonicTime reports_due_{};  // a plan waits for a series of reports until then
  bool reads_reports_ = false;
  ReportHistory reports_;
  std::optional<CyclePlan> cycle_;  // while it is carried out
  std::string cycle_problem_;       // of the last cycle; empty: none
  RefusedPods refused_;
  RecentEvictions recent_;
  BackgroundEvictions background_;
  rebalance::PlanHistory history_;
  PlanCounts counts_;
  RebalanceMetrics metrics_;
  InformerReporter informer_reporter_;
  MonotonicTime cycle_begun_{};
  MonotonicTime last_end_{};  // of an eviction, or of the plan
  std::map<std::pair<std::string, std::string>, Duration> plugin_times_;  // by profile and plugin
  std::vector<std::string> planned_;
  std::unordered_set<std::string> planned_uids_;
  // As last logged.
  std::string election_problem_;
  std::string holder_;
  std::string metrics_problem_;
  std::string left_out_;
  std::string reports_problem_;
  std::string events_problem_;
  std::string rooms_problem_;
  std::uint64_t events_dropped_ = 0;
  std::uint64_t lines_dropped_ = 0;
};

// Errors: of the policy, also that a rebalancer in a cluster cannot follow it.
[[nodiscard]] Result<rebalance::Policy> checked_policy(const RebalancerOptions& options);

// Until a signal can be read from `stop_fd`, a signalfd that does not block, or the only plan is
// over.
[[nodiscard]] Result<void> run_rebalancer(const RebalancerOptions& options, exports::Log& log,
                                          int stop_fd);

}  // namespace forestall::cluster
