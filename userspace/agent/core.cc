// SPDX-License-Identifier: Apache-2.0
#include "agent/core.h"

#include <algorithm>
#include <utility>

#include "agent/left_behind.h"
#include "agent/protected_workloads.h"
#include "agent/wall_time.h"
#include "policy/deadlines.h"

namespace forestall::agent {

using exports::LoopWork;
using exports::LoopWorkScope;

namespace {

// Kills begun in one evaluation before the loop serves other events. Each is for another subject,
// or for the next victim of one whose memory the last victim cannot satisfy.
constexpr int kMaxKillsPerEvaluation = 16;
// A shorter absence is logged only if the agent was stopped by a signal.
constexpr Duration kReportedAbsence = std::chrono::seconds(1);

bool is_due(const std::optional<MonotonicTime>& due, MonotonicTime now) {
  return due && *due <= now;
}

}  // namespace

Core::Core(Parts parts, Config config)
    : parts_(std::move(parts)),
      config_(std::move(config)),
      tree_(*parts_.clock, *parts_.observer, *parts_.scanner, *parts_.log, *parts_.watchdog,
            parts_.counts->work, config_, parts_.has_cgroup_events, [this] { protect(); }),
      growth_(*parts_.clock, *parts_.observer),
      rules_(*parts_.rules, config_),
      victim_cache_(*parts_.clock, *parts_.observer, *parts_.ladder, growth_, parts_.counts->work),
      evaluator_({*parts_.clock, *parts_.observer, *parts_.ladder, *parts_.reclaim, tree_,
                  victim_cache_, growth_, rules_, config_, parts_.counts->work, *parts_.tree}),
      reporter_(parts_),
      kills_({*parts_.clock, *parts_.observer, *parts_.ladder, *parts_.watchdog, *parts_.guard,
              victim_cache_, tree_, scheduler_, reporter_, crossings_, *parts_.log, parts_.sinks,
              *parts_.counts}),
      lines_(parts_.sources, parts_.has_usage_events, *parts_.log),
      oom_kills_(parts_.sinks, *parts_.forecast),
      own_limits_(*parts_.log, *parts_.throttle),
      pods_(*parts_.clock, *parts_.observer, *parts_.tree, *parts_.log, config_) {}

// ---- what causes evaluations ----

void Core::start() {
  tree_.refresh_changed();
  pods_.reconcile();
  growth_.evaluate_calm(config_);
  while (growth_.next_due()) growth_.work();
  evaluate(WakeSource::startup);
}

// No process with a thread in a protected workload is signalled.
void Core::protect() {
  const auto groups = protected_groups(*parts_.observer);
  parts_.ladder->protect(groups);
  parts_.guard->protect(groups);
}

void Core::resumed(const LoopPauses::Pause& pause, bool continued) {
  oom_kills_.note_absence(continued ? pause.from : pause.due, pause.to);
  const Duration at_least = std::max(pause.to - pause.due, Duration::zero());
  if (!continued && at_least < kReportedAbsence) return;
  // A service manager sends SIGCONT with its SIGTERM, so that alone shows no absence.
  parts_.log->write(
      at_least < kReportedAbsence ? exports::LogLevel::info : exports::LogLevel::warning,
      exports::LogLine("resumed")
          .field("cause", continued ? "SIGCONT" : "unknown")
          .field("away_at_least_us", at_least)
          .field("away_at_most_us", pause.to - pause.from));
}

void Core::source_ready(sources::Source& source) {
  std::vector<Wake> wakes;
  const MonotonicTime now = parts_.clock->now();
  {
    const LoopWorkScope work_scope(parts_.counts->work, LoopWork::events);
    source.drain(now, wakes);
    for (const SeenCrossing& crossing : source.take_crossings()) crossings_.add(crossing);
  }
  for (const Wake& wake : wakes) {
    if (wake.source == WakeSource::workload_change) tree_.note_change(wake.at);
    oom_kills_.note(wake, now);
  }
  if (!wakes.empty()) {
    const auto wake = scheduler_.admit(wakes, tree_.change_due(), parts_.clock->now());
    if (wake) evaluate(*wake);
  }
  // Kills by the kernel are recorded after the agent has acted.
  parts_.oom_events->take_from(source, parts_.clock->now());
  report_kernel_kills();
}

void Core::ladder_ready() {
  bool changed = false;
  {
    const LoopWorkScope work_scope(parts_.counts->work, LoopWork::ladder);
    changed = kills_.advance();
    report_reclaimed();
  }
  const MonotonicTime now = parts_.clock->now();
  const Wake progress{WakeSource::kill_progress, now, {}, {}};
  if (changed) return evaluate(progress);
  if (const auto wake = scheduler_.admit({progress}, tree_.change_due(), now)) evaluate(*wake);
}

void Core::reclaim_ready() {
  if (parts_.reclaim->finish(*parts_.log)) evaluate(WakeSource::node_reclaim);
}

void Core::watchdog_ready() {
  evaluate(WakeSource::watchdog);
}

// What was found is armed. After a scan that came too late a reported change may wait.
void Core::tree_ready() {
  if (tree_.take_scan() || tree_.changed()) evaluate(WakeSource::workload_change);
}

void Core::rules_ready() {
  if (rules_.take()) evaluate(WakeSource::rules);
}

void Core::guard_ready() {
  const MonotonicTime woken = parts_.clock->now();
  kills_.take_guard_kills();
  evaluate(Wake{WakeSource::guard, woken, {}, {}});
}

void Core::forecast_ready() {
  for (const LoopPredictor::Answer& answer : parts_.forecast->collect()) {
    if (!parts_.log->writes(exports::LogLevel::debug)) continue;
    exports::LogLine line("forecast");
    line.field("domain", answer.path).field("verdict", to_string(answer.verdict));
    if (answer.victim) line.field("pid", answer.victim->pid);
    line.field("took_us", answer.took);
    parts_.log->write(exports::LogLevel::debug, line);
  }
}

void Core::time_passed() {
  const MonotonicTime now = parts_.clock->now();
  if (is_due(parts_.ladder->next_due(), now)) ladder_ready();
  for (sources::Source* source : parts_.sources) {
    if (is_due(source->next_due(), now)) source_ready(*source);
  }
  if (is_due(parts_.oom_events->next_due(), now)) report_kernel_kills();
  parts_.forecast->time_passed();
  if (const auto wake = scheduler_.deferred_due(now)) evaluate(*wake);
  if (pods_.is_due(now)) pods_.reconcile();
  if (is_due(rules_.next_due(), now)) rules_.start(now);
  if (is_due(victim_cache_.next_due(), now)) pre_rank(now);
  if (is_due(growth_.next_due(), now)) sample_calm();
  if (scheduler_.deadline_due(now)) evaluate(Wake{WakeSource::deadline, now, {}, {}});
  const Wake recheck{WakeSource::recheck, now, {}, {}};
  const bool pass_due = is_due(reporter_.next_pass(), now);
  if (pass_due) reporter_.pass_due(now);
  if (is_due(parts_.guard->next_due(), now)) evaluate(recheck);
  if (tree_.recheck_at() <= now) {
    tree_.recheck();
    evaluate(recheck);
    if (is_calm()) growth_.evaluate_calm(config_);
  } else if (scheduler_.hold_due(now) || pass_due) {
    evaluate(recheck);
  }
}

MonotonicTime Core::next_due() const {
  MonotonicTime next = tree_.recheck_at();
  const auto consider = [&next](const std::optional<MonotonicTime>& due) {
    if (due) next = std::min(next, *due);
  };
  consider(scheduler_.next());
  consider(reporter_.next_pass());
  consider(pods_.next());
  consider(parts_.ladder->next_due());
  consider(victim_cache_.next_due());
  consider(growth_.next_due());
  consider(rules_.next_due());
  consider(parts_.oom_events->next_due());
  consider(parts_.forecast->next_due());
  consider(parts_.guard->next_due());
  for (const sources::Source* source : parts_.sources) consider(source->next_due());
  return next;
}

bool Core::is_calm() const {
  return !scheduler_.holds() && victim_cache_.subjects().empty();
}

void Core::sample_calm() {
  const LoopWorkScope work_scope(parts_.counts->work, LoopWork::sample);
  if (is_calm()) {
    growth_.work();
  } else {
    growth_.stop();
  }
}

void Core::pre_rank(MonotonicTime now) {
  if (!victim_cache_.working()) return evaluate(Wake{WakeSource::recheck, now, {}, {}});
  tree_.refresh_if_stale(now);
  if (!victim_cache_.work(config_, parts_.ladder->progress(), now)) return;
  kills_.post_orders(config_);
  parts_.guard->ranked();
  reporter_.report_next_victims(victim_cache_.next_victims(config_, nullptr, parts_.clock->now()));
}

void Core::reload(Config config) {
  const bool same_rules = policy::same_rules(config_, config);
  evaluator_.reconfigure(config);
  config_ = std::move(config);
  rules_.reconfigured(config_);
  reporter_.reconfigured();
  crossings_.clear();
  parts_.observer->configure(config_);
  victim_cache_.reconfigured(same_rules);
  parts_.watchdog->withdraw();
  parts_.guard->disarm();
  tree_.refresh();
  evaluate(WakeSource::command);
}

// ---- one evaluation ----

void Core::evaluate(WakeSource source) {
  evaluate(Wake{source, parts_.clock->now(), {}, {}});
}

void Core::evaluate(const Wake& wake) {
  kills_.take_watchdog_kill();
  const MonotonicTime woken = parts_.clock->now();
  scheduler_.begin(woken);
  decide_all(wake, woken);
  if (tree_.changed() && parts_.clock->now() < tree_.change_due()) {
    scheduler_.defer(Wake{WakeSource::workload_change, woken, {}, {}}, tree_.change_due());
  } else if (tree_.changed() && tree_.scan_changed()) {
    decide_all(wake, woken);  // arms what was just found
  }
  parts_.watchdog->evaluated();
}

void Core::decide_all(const Wake& wake, MonotonicTime woken) {
  for (int kills = 0; kills < kMaxKillsPerEvaluation && decide(wake, woken); ++kills) {
  }
}

// True when a kill was begun.
bool Core::decide(const Wake& wake, MonotonicTime woken) {
  Record record = evaluator_.evaluate(wake, scheduler_.began_at());
  record.stages.crossed = wake.at;
  record.stages.woken = woken;
  record.stages.decided = parts_.clock->now();
  const bool kills = record.decision.action == Action::kill;
  const bool signalled = kills && signal(record.decision);
  // What follows happens while the victims are dying already.
  record.wall_time_ns = wall_time_ns();
  // The evaluation may have found a crossing whose event is still in the ring.
  for (const sources::Source* source : parts_.sources) {
    for (const SeenCrossing& reading : source->last_readings()) crossings_.add(reading);
  }
  crossings_.evaluated(record);
  if (const auto driving = record.decision.driving) {
    record.crossing = crossings_.bounds(record.decision.evidence[*driving], record.stages.observed);
  }
  if (kills && !signalled) {
    reporter_.report_pass(config_, evaluator_.state_before(record), record);
    return false;
  }
  scheduler_.set_deadline(policy::next_deadline(config_, evaluator_.state()));
  if (!kills) arm(record);
  log_evaluation(record);
  log_rulesets(record.decision);
  if (record.decision.action == Action::reclaim) {
    parts_.log->write(
        exports::LogLevel::warning,
        exports::LogLine("node-reclaim").field("begun", parts_.reclaim->start(record.decision)));
  }
  report(std::move(record));
  return kills;
}

bool Core::signal(const Decision& decision) {
  const LoopWorkScope work_scope(parts_.counts->work, LoopWork::kill);
  return kills_.signal(decision);
}

// Arms the sources, until the next wake.
void Core::arm(const Record& record) {
  const LoopWorkScope work_scope(parts_.counts->work, LoopWork::arm);
  const MonotonicTime now = parts_.clock->now();
  const auto lines = lines_.arm(config_, record.observation, record.decision, now);
  scheduler_.set_lines(lines);
  // The kernel's points change with every page: that ranking is made at the crossing only.
  if (config_.ranking != Ranking::kernel) victim_cache_.note(lines, now);
  if (victim_cache_.subjects().empty()) parts_.watchdog->withdraw();
  scheduler_.hold(record.decision, record.stages.decided);
  kills_.withdraw_if_met(record.decision);
}

void Core::report(Record record) {
  const LoopWorkScope work_scope(parts_.counts->work, LoopWork::report);
  const bool kills = record.decision.action == Action::kill;
  reporter_.report_pass(config_, evaluator_.state_before(record), record);
  bool near_own_limit = false;
  // A pre-ranked decision read a part of the node only; after its kill the next evaluation follows
  // at once and reads all of it.
  if (!record.prepared) {
    reclaim_left_behind(record.decision);
    kills_.evaluated(record);
    reporter_.report_evaluation(record, tree_.recheck_at(), tree_.pod_facts());
    reporter_.report_next_victims(
        victim_cache_.next_victims(config_, &record.decision, parts_.clock->now()));
    near_own_limit = own_limits_.evaluate(config_, record.decision);
  }
  // While a victim's memory is pending release, neither the kernel's next victim nor the guard's
  // list can be computed.
  if (!record.prepared && !kills) {
    parts_.forecast->evaluated(record.observation, record.decision);
    const LoopWorkScope guard_scope(parts_.counts->work, LoopWork::guard);
    parts_.guard->evaluated(config_, record, victim_cache_, growth_);
  }
  if (kills) {
    kills_.record_loop_kills(record);
  } else {
    if (near_own_limit) {
      reporter_.report(record);
    } else {
      reporter_.report_news(record);
    }
    reporter_.workload_sample(evaluator_, record.stages.decided);
  }
  evaluator_.keep_workloads(record);
  oom_kills_.keep(std::move(record), evaluator_.state());
}

// Reclaims this memory before the agent kills a workload within its request: until then the limit
// on the damage protects such workloads (policy/damage_limit.h). When a reclaim has ended, the next
// evaluation follows and starts the next one.
void Core::reclaim_left_behind(const Decision& decision) {
  for (const WorkloadSample* sample : left_behind(decision)) {
    if (parts_.ladder->reclaim(*sample)) break;
  }
  report_reclaimed();
}

void Core::report_reclaimed() {
  for (const auto& reclaimed : parts_.ladder->take_reclaimed()) {
    log_reclaimed(*parts_.log, reclaimed);
  }
}

// Reports each kill once, after both reports of it arrived or the wait for the second ended.
void Core::report_kernel_kills() {
  const MonotonicTime now = parts_.clock->now();
  std::vector<OomKillEvent> kills;
  parts_.oom_events->take(now, kills);
  for (const OomKillEvent& kill : kills) {
    ++parts_.counts->kernel_oom_kills;
    oom_kills_.report(kill, config_, reporter_.next_sequence(), now, wall_time_ns());
  }
}

void Core::log_evaluation(const Record& record) const {
  if (!parts_.log->writes(exports::LogLevel::debug)) return;
  const StageTimes& stages = record.stages;
  parts_.log->write(exports::LogLevel::debug,
                    exports::LogLine("evaluation")
                        .field("wake", to_string(record.observation.wake.source))
                        .field("reason", to_string(record.decision.reason))
                        .field("wake_us", stages.woken - stages.crossed)
                        .field("observe_us", stages.observed - stages.woken)
                        .field("decide_us", stages.decided - stages.observed)
                        .field("act_and_arm_us", parts_.clock->now() - stages.decided));
}

// A kill has a record. What a ruleset only logs, and what it would kill, has a line.
void Core::log_rulesets(const Decision& decision) const {
  for (const RuleReport& ruleset : decision.rulesets) {
    const auto line = [&] {
      exports::LogLine begun("ruleset");
      begun.field("ruleset", ruleset.name);
      if (ruleset.group) begun.field("detectors", *ruleset.group);
      return begun;
    };
    for (const std::string& text : ruleset.log) {
      parts_.log->write(exports::LogLevel::warning, line().field("text", text));
    }
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (attempt.outcome != RuleOutcome::dry_run) continue;
        parts_.log->write(exports::LogLevel::warning,
                          line().field("action", action.name).field("would_kill", attempt.cgroup));
      }
    }
  }
}

}  // namespace forestall::agent
