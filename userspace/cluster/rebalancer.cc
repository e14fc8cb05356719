// SPDX-License-Identifier: Apache-2.0
#include "cluster/rebalancer.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <variant>

#include "cluster/plan_log.h"
#include "cluster/rebalance_policy.h"

namespace forestall::cluster {
namespace {

using exports::LogLevel;
using exports::LogLine;

// Of one node. At least; more if the policy compares more.
constexpr std::size_t kReportsMin = 6;
// So many intervals per report: nodes may report late.
constexpr int kReportsLate = 4;
// Between two attempts to write what waits for room in the log.
constexpr Duration kLogInterval = std::chrono::milliseconds(10);
// An Event for each eviction of a large plan.
constexpr EventSeries::Rate kEventRate{.burst = 1000, .per_new = std::chrono::milliseconds(100)};

std::int64_t wall_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}
std::int64_t wall_seconds() {
  return wall_ns() / 1'000'000'000;
}
std::int64_t wall_micros() {
  return wall_ns() / 1'000;
}

std::function<double()> chances() {
  std::random_device device;
  return [engine = std::mt19937_64(std::uint64_t{device()} << 32 | device())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
}

// The next process leads `lease - renew` after this one stopped: a request that was sent before is
// over by then.
Duration eviction_longest(const std::optional<LeaseOptions>& lease) {
  constexpr Duration kLongest = std::chrono::seconds(10);
  return lease ? std::min(kLongest, lease->lease - lease->renew) : kLongest;
}

// Whether the server did not evict the pod though it was requested.
bool is_failure(PlannedEnd end) {
  switch (end) {
    case PlannedEnd::gone:
    case PlannedEnd::refused_by_budget:
    case PlannedEnd::refused:
    case PlannedEnd::no_room:
    case PlannedEnd::failed: return true;
    case PlannedEnd::evicted:
    case PlannedEnd::background:
    case PlannedEnd::unknown:
    case PlannedEnd::abandoned: return false;
  }
  return false;
}

std::size_t reports_kept(const rebalance::Policy& policy) {
  return std::max(kReportsMin, reports_compared(policy));
}

std::optional<PrometheusSettings> prometheus_settings(const RebalancerOptions& options,
                                                      const rebalance::Policy& policy) {
  auto settings = prometheus_of(options.policy_file, options.policy);
  if (!settings) return settings;
  settings->account_directory = options.account_directory;
  settings->api_authority = options.access.ca;
  settings->authority_file = options.prometheus_ca;
  settings->is_strict = !policy.corrections.empty();
  return settings;
}

}  // namespace

Rebalancer::Rebalancer(const RebalancerOptions& options, const Clock& clock, exports::Log& log,
                       std::unique_ptr<kubernetes::HttpClient> client, rebalance::Policy policy)
    : options_(options),
      clock_(clock),
      log_(log),
      client_(std::move(client)),
      reports_failures_(reports_failures(options.policy_file, options.policy)),
      reports_compared_(reports_compared(policy)),
      placeholder_(policy.placeholder),
      state_(sources_of(policy), options.interval > Duration::zero(), *client_, clock, chances),
      report_lister_(chances()),
      plan_metrics_(*client_, clock, policy, prometheus_settings(options, policy),
                    [this] { return leads(); }),
      evictions_(
          {grace_of(options.policy_file, options.policy), eviction_longest(options.lease),
           options.background, !policy.corrections.empty()},
          [this] { return leads(); }, chances(),
          [this](const PlannedEviction& each, MonotonicTime) { return reserve(each); }),
      events_(options.identity, wall_seconds, chances(), kEventRate),
      report_sender_(*client_, report_lister_, clock, 1, SnapshotLister::kPageBytesMax),
      eviction_sender_(*client_, evictions_, clock, 1, PlanEvictions::kAnswerBytesMax),
      event_sender_(*client_, events_, clock, EventSeries::kRequestsMax),
      next_cycle_(clock.now()),
      next_reports_(clock.now()),
      reports_(reports_kept(policy), reports_kept(policy) * kReportsLate * kReportsInterval),
      refused_(options.interval) {
  if (placeholder_ && !options.dry_run) {
    rooms_.emplace(
        *placeholder_, *client_, clock, [this] { return leads(); }, eviction_longest(options.lease),
        chances());
  }
  reports_due_ = clock.now() + longest_series();
  if (!options.lease) return;
  election_.emplace(*options.lease, wall_micros, chances());
  election_sender_.emplace(*client_, *election_, clock, 1);
}

Result<rebalance::Policy> checked_policy(const RebalancerOptions& options) {
  rebalance::Policy policy =
      TRY(read_policy(options.policy_file, options.policy, options.compat, nullptr));
  if (policy.placeholder && !policy.corrections.has(rebalance::Correction::room_first)) {
    return error(options.policy_file +
                 ": reserve: placeholder needs compat: fixed, which plans a destination");
  }
  const auto prometheus = prometheus_of(options.policy_file, options.policy);
  if (prometheus && !prometheus_queries(policy).empty()) {
    if (const auto checked = PrometheusQueries::check_url(prometheus->url); !checked) {
      return error(options.policy_file + ": metricsProviders: " + checked.error().text());
    }
  }
  if (reports_compared(policy) > 0 && options.interval == Duration::zero()) {
    return error(options.policy_file +
                 ": the plugin NodePressure compares several reports of a node; use "
                 "--descheduling-interval");
  }
  return policy;
}

Result<std::unique_ptr<Rebalancer>> Rebalancer::create(const RebalancerOptions& options,
                                                       const Clock& clock, exports::Log& log) {
  rebalance::Policy policy = TRY(checked_policy(options));
  auto client = TRY(kubernetes::HttpClient::create(options.access));
  return std::unique_ptr<Rebalancer>(
      new Rebalancer(options, clock, log, std::move(client), std::move(policy)));
}

void Rebalancer::advance() {
  if (election_sender_) election_sender_->advance();
  if (rooms_) rooms_->advance();
  eviction_sender_.advance();
  event_sender_.advance();
  state_.advance();
  report_sender_.advance();
  plan_metrics_.advance();
}

Result<void> Rebalancer::step(int stop_fd, Duration longest) {
  advance();
  client_->advance();
  advance();
  follow_election();
  poll_reports();
  // What it sends may end the plan, for instance because another process may lead meanwhile.
  do {
    advance();
    report_evictions();
  } while (change_phase());
  report_losses();
  if (finished()) return {};
  std::vector<pollfd> fds;
  if (stop_fd >= 0) fds.push_back({stop_fd, POLLIN, 0});
  return client_->wait(fds, std::clamp(due() - clock_.now(), Duration::zero(), longest));
}

// Whether there was something to do.
bool Rebalancer::change_phase() {
  switch (phase_) {
    case RunPhase::idle:
      if (finished_ || !leads() || clock_.now() < cycle_due()) return false;
      // follow_election() first requests a state that is later than the gain of the leadership.
      if (election_ && !led_) return false;
      begin_cycle();
      return true;
    case RunPhase::reading:
      // As the lists: of the time when there is nothing else to wait for.
      if (state_.polls() && !std::exchange(queries_, true)) {
        plan_metrics_.begin();
        return true;
      }
      if (!state_.done() || (state_.failure().empty() && !plan_metrics_.done())) return false;
      plan();
      return true;
    case RunPhase::evicting:
      if (!evictions_.held() && !evictions_.done()) return false;
      if (evictions_.held()) {
        plan_again();
      } else {
        end_plan();
      }
      return true;
  }
  return false;
}

MonotonicTime Rebalancer::due() const {
  MonotonicTime first = clock_.now() + std::chrono::hours(1);
  const bool leads_now = leads();
  if (leads_now && phase_ == RunPhase::idle && !finished_) first = std::min(first, cycle_due());
  if (reports_compared_ > 0 && !reads_reports_) first = std::min(first, next_reports_);
  if (!log_.done()) first = clock_.now() + kLogInterval;
  const auto end = election_ && leads_now ? election_->leads_until() : std::nullopt;
  const auto election = election_sender_ ? election_sender_->due() : std::nullopt;
  const auto rooms = rooms_ ? rooms_->due() : std::nullopt;
  for (const auto& each : {state_.due(), report_sender_.due(), eviction_sender_.due(),
                           event_sender_.due(), plan_metrics_.due(), election, end, rooms}) {
    if (each) first = std::min(first, *each);
  }
  return first;
}

void Rebalancer::follow_election() {
  if (!election_) return;
  if (election_->problem() != election_problem_) {
    election_problem_ = election_->problem();
    if (!election_problem_.empty()) {
      log_.write(LogLevel::warning, LogLine("lease").field("problem", election_problem_));
    }
  }
  if (election_->holder() != holder_) {
    holder_ = election_->holder();
    log_.write(LogLevel::info, LogLine("lease").field("holder", holder_));
  }
  const bool leads_now = leads();
  if (leads_now == led_) return;
  led_ = leads_now;
  log_.write(leads_now ? LogLevel::info : LogLevel::warning,
             LogLine("leader").field("state", leads_now ? "leads" : "lost"));
  if (leads_now) {
    state_.fence();
    return fence_reports();
  }
  plan_metrics_.leadership_lost();
  if (rooms_) rooms_->release_all("the leadership is lost");
  if (phase_ == RunPhase::idle) return;
  evictions_.abandon("the leadership is lost");
  state_.cancel();
  if (phase_ == RunPhase::reading) fail_cycle("the leadership is lost");
}

// A list that was requested before may be of the time of the leader before.
void Rebalancer::fence_reports() {
  reports_.fence();
  report_lister_.cancel();
  reads_reports_ = false;
  next_reports_ = clock_.now();
  reports_due_ = clock_.now() + longest_series();
}

// A node may write its first report right after a list. Other plugins wait for no more than an
// interval.
Duration Rebalancer::longest_series() const {
  const auto lists = static_cast<Duration::rep>(reports_compared_) + 1;
  return std::min<Duration>(lists * kReportsInterval, options_.interval);
}

// Without a series of reports NodePressure moves nothing, and the next plan is an interval later.
MonotonicTime Rebalancer::cycle_due() const {
  if (reports_compared_ == 0 || reports_.has_series(reports_compared_)) return next_cycle_;
  return std::max(next_cycle_, reports_due_);
}

void Rebalancer::poll_reports() {
  if (reports_compared_ == 0) return;
  if (reads_reports_ && report_lister_.done()) {
    reads_reports_ = false;
    const std::string& failed = report_lister_.failure();
    const std::string& problem = failed.empty() ? report_lister_.left_out() : failed;
    if (!problem.empty() && problem != reports_problem_) {
      log_.write(LogLevel::warning, LogLine("node-reports").field("problem", problem));
    }
    reports_problem_ = problem;
    if (problem.empty()) {
      reports_.add(report_lister_.take(wall_ns()), clock_.now());
    } else if (report_lister_.left_out_for_good()) {
      reports_due_ = clock_.now();
    }
  }
  // A process that becomes the leader has the reports of before, too.
  if (reads_reports_ || clock_.now() < next_reports_) return;
  next_reports_ = clock_.now() + kReportsInterval;
  reads_reports_ = true;
  report_lister_.begin(polled_kinds(false, false, true), clock_.now());
}

void Rebalancer::begin_cycle() {
  cycle_begun_ = clock_.now();
  next_cycle_ = cycle_begun_ + options_.interval;
  phase_ = RunPhase::reading;
  queries_ = false;
  state_.begin();
}

void Rebalancer::report_left_out(const rebalance::Snapshot& snapshot) {
  std::string left_out = state_.left_out();
  if (left_out.empty() && reports_compared_ > 0 && snapshot.reports.empty()) {
    left_out = "the list of NodeReports is empty";
  }
  if (left_out == left_out_) return;
  left_out_ = std::move(left_out);
  if (left_out_.empty()) return;
  log_.write(LogLevel::warning, LogLine("plan")
                                    .field("problem", left_out_)
                                    .field("effect", "plugins that need it evict nothing"));
}

void Rebalancer::plan() {
  if (const std::string why = state_.failure(); !why.empty()) {
    state_.cancel();
    return fail_cycle(why);
  }
  ClusterState::Taken taken = state_.take(wall_ns());
  rebalance::Snapshot& snapshot = taken.snapshot;
  report_left_out(snapshot);
  plan_metrics_.add_to(snapshot);
  recent_.mark(snapshot, clock_.now());
  if (rooms_) {
    const Result<void> begun = rooms_->begin_plan(snapshot);
    if (!begun) return fail_cycle(begun.error().text());
  } else if (placeholder_) {
    drop_placeholders(snapshot, *placeholder_);
  }
  if (options_.background) background_.mark(snapshot, clock_.now());
  if (reports_compared_ > 0) {
    reports_.add_to(snapshot);
    taken.texts.push_back(reports_.texts());
  }
  auto policy = read_policy(options_.policy_file, options_.policy, options_.compat,
                            &snapshot.priority_classes);
  if (!policy) return fail_cycle(policy.error().text());
  cycle_.emplace(*std::move(policy), std::move(snapshot), std::move(taken.texts), history_);
  CyclePlan::Made made = cycle_->make(refused_, clock_.now());
  ++counts_.made;
  metrics_.plan_made();
  plugin_times_.clear();
  for (const rebalance::ProfileRun& profile : made.plan.profiles) {
    for (const auto& each : profile.plugins) plugin_times_[{profile.name, each.plugin}] = {};
  }
  last_end_ = clock_.now();
  for (const auto& [eviction, why] : made.refused) {
    log_eviction(log_, eviction, "refused-by-plan", why);
  }
  log_plan(log_, made.plan, made.evictions.size());
  planned_.clear();
  planned_uids_.clear();
  phase_ = RunPhase::evicting;
  remember(made);
  if (options_.dry_run) {
    for (const PlannedEviction& each : made.evictions) dry_run(each);
    return;
  }
  evictions_.begin(std::move(made.evictions), taken.as_of, cycle_->may_make_again());
}

void Rebalancer::plan_again() {
  const MonotonicTime begun = clock_.now();
  CyclePlan::Made made = cycle_->make(refused_, begun);
  log_.write(LogLevel::info,
             LogLine("plan").field("again", true).field("evictions", made.evictions.size()));
  remember(made);
  cycle_->took(clock_.now() - begun);
  evictions_.resume(std::move(made.evictions), cycle_->may_make_again());
}

void Rebalancer::remember(const CyclePlan::Made& made) {
  for (const PlannedEviction& each : made.evictions) {
    if (!planned_uids_.insert(each.pod.uid).second) continue;
    planned_.push_back(each.pod.pod_namespace + '/' + each.pod.name);
  }
  if (made.plan.history && !options_.dry_run) history_ = *made.plan.history;
}

// A pod that was not evicted has not moved.
void Rebalancer::forget_move(const PodTarget& pod) {
  const auto of_pod = [&pod](const rebalance::Move& move) {
    return move.pod_namespace == pod.pod_namespace && move.pod == pod.name;
  };
  rebalance::MoveHistory& moves = history_.moves;
  const auto last = std::find_if(moves.rbegin(), moves.rend(), of_pod);
  if (last != moves.rend()) moves.erase(std::next(last).base());
}

void Rebalancer::remember_end(const PlanEvictions::Ended& ended) {
  const PodTarget& pod = ended.eviction.pod;
  const std::string refusal = ended.problem.empty() ? "refused" : ended.problem;
  if (cycle_ && ended.end == PlannedEnd::gone) {
    cycle_->gone(pod.uid, refusal);
  } else if (cycle_) {
    cycle_->ended(pod.uid, may_be_evicted(ended.end) ? "" : refusal);
  }
  if (cycle_) cycle_->requested(ended.eviction, ended.end);
  // What may have been evicted counts for the pacing, too.
  if (!may_be_evicted(ended.end)) forget_move(pod);
  const bool terminates = ended.end == PlannedEnd::evicted || ended.end == PlannedEnd::unknown;
  if (terminates) {
    recent_.add(pod.uid, wall_ns(), clock_.now());
    state_.evicted(pod);
  }
  switch (ended.end) {
    case PlannedEnd::refused:
    case PlannedEnd::gone: return refused_.add(pod.uid, refusal, true, clock_.now());
    case PlannedEnd::failed:
    case PlannedEnd::unknown: return refused_.add(pod.uid, refusal, ended.is_of_pod, clock_.now());
    case PlannedEnd::background: return background_.assume(pod.uid, clock_.now());
    // It may be possible in the next cycle.
    case PlannedEnd::no_room:
    case PlannedEnd::refused_by_budget:
    case PlannedEnd::evicted:
    case PlannedEnd::abandoned: return;
  }
}

void Rebalancer::report_evictions() {
  for (const PlanEvictions::Ended& each : evictions_.take_ended()) {
    ++counts_.evictions[each.end];
    measure(each);
    log_eviction(log_, each.eviction, to_string(each.end), each.problem);
    remember_end(each);
    if (rooms_) rooms_->ended(each);
    if (is_failure(each.end)) report_failure(each.eviction, each.problem);
    if (each.end == PlannedEnd::evicted) {
      events_.add(eviction_event(each.eviction), "", clock_.now());
    }
  }
}

void Rebalancer::report_failure(const PlannedEviction& eviction, const std::string& problem) {
  if (!reports_failures_ || options_.dry_run) return;
  events_.add(failure_event(eviction, problem), "", clock_.now());
}

void Rebalancer::report_limits() {
  for (const CyclePlan::Limited& each : cycle_->limited()) {
    metrics_.limited(each.first, each.limit, each.count);
    report_failure(each.first, each.limit);
  }
}

void Rebalancer::measure(const PlanEvictions::Ended& ended) {
  metrics_.eviction(ended.eviction, ended.end);
  const MonotonicTime now = clock_.now();
  plugin_times_[{ended.eviction.profile, ended.eviction.plugin}] += now - last_end_;
  last_end_ = now;
}

void Rebalancer::report_losses() {
  log_.advance();
  metrics_.set_leads(leads());
  metrics_.set_refused_pods(refused_.size());
  metrics_.set_losses(log_.dropped(), events_.dropped());
  report_placeholders();
  if (state_.informers() != nullptr) {
    informer_reporter_.report(*state_.informers(), log_, metrics_, clock_.now());
  }
  metrics_.beat(SystemClock().now());
  if (log_.dropped() != lines_dropped_) {
    lines_dropped_ = log_.dropped();
    log_.write(LogLevel::warning, LogLine("log").field("lines_dropped", lines_dropped_));
  }
  if (plan_metrics_.problem() != metrics_problem_) {
    metrics_problem_ = plan_metrics_.problem();
    if (!metrics_problem_.empty()) {
      log_.write(LogLevel::warning, LogLine("node-metrics").field("problem", metrics_problem_));
    }
  }
  if (events_.problem() != events_problem_) {
    events_problem_ = events_.problem();
    if (!events_problem_.empty()) {
      log_.write(LogLevel::warning, LogLine("events").field("problem", events_problem_));
    }
  }
  if (events_.dropped() == events_dropped_) return;
  events_dropped_ = events_.dropped();
  log_.write(LogLevel::warning, LogLine("events").field("dropped", events_dropped_));
}

ReservedRoom Rebalancer::reserve(const PlannedEviction& eviction) {
  if (!rooms_) return {RoomState::held, ""};
  return rooms_->reserve(eviction, cycle_->snapshot());
}

void Rebalancer::dry_run(const PlannedEviction& eviction) {
  metrics_.dry_run_eviction(eviction);
  log_eviction(log_, eviction, "dry-run", "");
  if (!placeholder_ || eviction.destination.empty()) return;
  const auto room = room_of(eviction, *placeholder_, cycle_->snapshot(), "dry-run");
  log_placeholder(log_, eviction.pod, eviction.destination, room ? "dry-run" : "dry-run-failed",
                  room ? "" : room.error().text());
}

void Rebalancer::report_placeholders() {
  if (!rooms_) return;
  for (const PlaceholderPods::Changed& each : rooms_->take_changes()) {
    metrics_.placeholder(each.change);
    log_placeholder(log_, each.pod, each.node, to_string(each.change), each.why);
  }
  metrics_.set_placeholders(rooms_->held());
  if (rooms_->problem() == rooms_problem_) return;
  rooms_problem_ = rooms_->problem();
  if (rooms_problem_.empty()) return;
  log_.write(LogLevel::warning, LogLine("placeholder").field("problem", rooms_problem_));
}

void Rebalancer::end_plan() {
  cycle_problem_.clear();
  history_.waiting = cycle_->waits_after(std::move(history_.waiting));
  if (!evictions_.dropped_why().empty()) {
    cycle_problem_ = "the plan was dropped: " + evictions_.dropped_why();
    log_.write(LogLevel::warning, LogLine("plan").field("problem", cycle_problem_));
  } else {
    report_limits();
  }
  end_cycle();
}

Result<void> Rebalancer::outcome() const {
  if (cycle_problem_.empty()) return {};
  return error(cycle_problem_ + "; see the log");
}

void Rebalancer::end_cycle() {
  phase_ = RunPhase::idle;
  cycle_.reset();
  metrics_.cycle(clock_.now() - cycle_begun_);
  for (const auto& [names, took] : plugin_times_) {
    metrics_.plugin(names.first, names.second, took);
  }
  plugin_times_.clear();
  if (options_.interval == Duration::zero()) finished_ = true;
}

void Rebalancer::fail_cycle(const std::string& problem) {
  ++counts_.failed;
  metrics_.plan_failed();
  log_.write(LogLevel::warning, LogLine("plan").field("problem", problem));
  cycle_problem_ = "no plan was made: " + problem;
  end_cycle();
}

Result<void> Rebalancer::withdraw(Duration longest) {
  const MonotonicTime end = clock_.now() + longest;
  evictions_.abandon("this process ends");
  state_.cancel();
  report_lister_.cancel();
  plan_metrics_.cancel();
  if (rooms_) rooms_->release_all("this process ends");
  bool releases = false;
  while (true) {
    advance();
    client_->advance();
    advance();
    report_evictions();
    report_losses();
    // Another process leads right after the release: it must not evict at the same time.
    if (election_ && evictions_.done() && !releases) {
      releases = true;
      election_->release(clock_.now());
      advance();
    }
    const bool released = !election_ || (releases && election_->released(clock_.now()));
    const bool roomless = !rooms_ || rooms_->done();
    if (evictions_.done() && released && roomless && events_.all_reported() && log_.done()) {
      return {};
    }
    const MonotonicTime now = clock_.now();
    if (now >= end) {
      return error(evictions_.done() && released
                       ? "not all placeholders are removed, or Events and lines of the log written"
                       : "the API server has not answered in time");
    }
    MonotonicTime next = log_.done() ? end : now + kLogInterval;
    const auto election = election_sender_ ? election_sender_->due() : std::nullopt;
    const auto rooms = rooms_ ? rooms_->due() : std::nullopt;
    for (const auto& each : {election, eviction_sender_.due(), event_sender_.due(), rooms}) {
      if (each) next = std::min(next, *each);
    }
    TRY(client_->wait({}, std::max(next - now, Duration::zero())));
  }
}

}  // namespace forestall::cluster
