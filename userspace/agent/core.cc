// SPDX-License-Identifier: Apache-2.0
#include "agent/core.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "agent/protected_workloads.h"
#include "exports/log_line.h"

namespace forestall::agent {

using exports::LoopWork;
using exports::LoopWorkScope;

namespace {

// A shorter absence is logged only if the agent was stopped by a signal.
constexpr Duration kReportedAbsence = std::chrono::seconds(1);

bool is_due(const std::optional<MonotonicTime>& due, MonotonicTime now) {
  return due && *due <= now;
}

}  // namespace

Core::Core(Parts parts, Config config)
    : parts_(std::move(parts)),
      config_(std::move(config)),
      annotations_(parts_.tree, parts_.log),
      tree_(parts_.clock, parts_.observer, parts_.scanner, parts_.log, parts_.watchdog,
            parts_.counts->work, config_, parts_.has_cgroup_events, [this] { rescanned(); }),
      growth_(parts_.clock, parts_.observer),
      rules_(parts_.rules, config_),
      restarts_(parts_.restarter, parts_.clock),
      hooks_(parts_.hooks, parts_.clock),
      victim_cache_(parts_.clock, parts_.observer, parts_.ladder, growth_, parts_.counts->work),
      evaluator_({.clock = parts_.clock,
                  .observer = parts_.observer,
                  .ladder = parts_.ladder,
                  .reclaim = parts_.reclaim,
                  .tree = tree_,
                  .victim_cache = victim_cache_,
                  .growth = growth_,
                  .rules = rules_,
                  .restarts = restarts_,
                  .hooks = hooks_,
                  .pressure = parts_.container_pressure,
                  .config = config_,
                  .work = parts_.counts->work,
                  .cgroups = parts_.tree}),
      writer_(parts_.sinks),
      reporter_(parts_, writer_),
      kills_({.clock = parts_.clock,
              .observer = parts_.observer,
              .ladder = parts_.ladder,
              .marker = parts_.marker,
              .watchdog = parts_.watchdog,
              .guard = parts_.guard,
              .restarts = restarts_,
              .victim_cache = victim_cache_,
              .tree = tree_,
              .scheduler = scheduler_,
              .reporter = reporter_,
              .writer = writer_,
              .crossings = crossings_,
              .log = parts_.log,
              .counts = *parts_.counts}),
      evicted_pods_(parts_.clock, parts_.observer, parts_.ladder, kills_),
      oom_kills_(parts_.oom_events, parts_.forecast, writer_, *parts_.counts),
      left_behind_(parts_.ladder, parts_.log),
      effects_({parts_.log, *parts_.counts, parts_.rule_settings, restarts_, hooks_}),
      round_({.agent = parts_,
              .config = config_,
              .scheduler = scheduler_,
              .tree = tree_,
              .growth = growth_,
              .victim_cache = victim_cache_,
              .evaluator = evaluator_,
              .crossings = crossings_,
              .reporter = reporter_,
              .kills = kills_,
              .oom_kills = oom_kills_,
              .left_behind = left_behind_,
              .effects = effects_,
              .annotations = annotations_}),
      preparation_({.agent = parts_,
                    .config = config_,
                    .scheduler = scheduler_,
                    .tree = tree_,
                    .growth = growth_,
                    .victim_cache = victim_cache_,
                    .reporter = reporter_,
                    .kills = kills_}),
      pods_(parts_.clock, parts_.observer, parts_.tree, parts_.log, config_,
            {parts_.memory_qos, parts_.container_pressure, annotations_}),
      prediction_problems_(parts_.log) {}

void Core::start() {
  tree_.refresh_changed();
  effects_.configured(config_);
  pods_.reconcile();
  growth_.begin_sampling(config_);
  while (growth_.next_due()) growth_.work();
  evaluate(WakeSource::startup);
}

// No process with a thread in a protected workload is signalled.
void Core::rescanned() {
  annotations_.report(parts_.observer.workloads(), config_.pod_annotations);
  const auto groups = protected_groups(parts_.observer, config_);
  parts_.ladder.protect(groups);
  parts_.guard.protect(groups);
}

void Core::resumed(const LoopPauses::Pause& pause, bool continued) {
  oom_kills_.note_absence(continued ? pause.from : pause.due, pause.to);
  const Duration at_least = std::max(pause.to - pause.due, Duration::zero());
  if (!continued && at_least < kReportedAbsence) return;
  // A service manager sends SIGCONT with its SIGTERM, so that alone shows no absence.
  parts_.log.write(
      at_least < kReportedAbsence ? exports::LogLevel::info : exports::LogLevel::warning,
      exports::LogLine("resumed")
          .field("cause", continued ? "SIGCONT" : "unknown")
          .field("away_at_least_us", at_least)
          .field("away_at_most_us", pause.to - pause.from));
}

void Core::source_ready(sources::Source& source) {
  std::vector<Wake> wakes;
  const MonotonicTime now = parts_.clock.now();
  {
    const LoopWorkScope work_scope(parts_.counts->work, LoopWork::events);
    source.drain(now, wakes);
    for (const SourceReadings& crossing : source.take_crossings()) crossings_.add(crossing);
  }
  for (const Wake& wake : wakes) {
    if (wake.source == WakeSource::workload_change) tree_.note_change(wake.at);
    oom_kills_.note(wake, now);
  }
  const MonotonicTime drained = parts_.clock.now();
  std::optional<Wake> wake;
  if (!wakes.empty()) wake = scheduler_.admit(wakes, tree_.rescan_at(), drained);
  // The loop's timer waits while hints keep coming.
  if (!wake) wake = scheduler_.ready_wake(drained);
  if (wake) round_.run(*wake);
  // Kills by the kernel are recorded after the agent has acted.
  oom_kills_.take_from(source, parts_.clock.now());
  oom_kills_.report_complete(config_, parts_.clock.now());
  preparation_.catch_up_guard();
}

void Core::ladder_ready() {
  bool changed = false;
  {
    const LoopWorkScope work_scope(parts_.counts->work, LoopWork::ladder);
    changed = kills_.advance();
    left_behind_.report();
    evicted_pods_.changed();
  }
  const MonotonicTime now = parts_.clock.now();
  const Wake progress{WakeSource::kill_progress, now, {}, {}};
  if (changed) {
    round_.run(progress);
  } else if (const auto wake = scheduler_.admit({progress}, tree_.rescan_at(), now)) {
    round_.run(*wake);
  }
  preparation_.catch_up_guard();
}

void Core::pins_ready() {
  preparation_.take_pins();
}

void Core::reclaim_ready() {
  if (parts_.reclaim.finish(parts_.log)) evaluate(WakeSource::node_reclaim);
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

// The kill that waits needs a reading: everything about its victim is checked again.
void Core::hooks_ready() {
  static_cast<void>(hooks_.progress());
  rules_.hasten(parts_.clock.now());
}

// The evaluation takes them.
void Core::pressure_ready() {
  evaluate(WakeSource::pressure);
}

void Core::guard_ready() {
  const MonotonicTime woken = parts_.clock.now();
  kills_.take_guard_kills(config_);
  round_.run(Wake{WakeSource::guard, woken, {}, {}});
  preparation_.catch_up_guard();
}

void Core::guard_lists_ready() {
  const LoopWorkScope work_scope(parts_.counts->work, LoopWork::guard);
  parts_.guard.take_lists();
}

void Core::forecast_ready() {
  const std::vector<LoopPredictor::Answer> answers = parts_.forecast.collect();
  report_order_problems(answers);
  for (const LoopPredictor::Answer& answer : answers) {
    if (!parts_.log.writes(exports::LogLevel::debug)) continue;
    exports::LogLine line("forecast");
    line.field("domain", answer.path).field("verdict", to_string(answer.verdict));
    if (answer.victim) line.field("pid", answer.victim->pid);
    if (answer.order == LoopPredictor::TieOrder::pid) line.field("order", "pid");
    line.field("took_us", answer.took);
    parts_.log.write(exports::LogLevel::debug, line);
  }
}

// A round without processes of equal points shows nothing about the order.
void Core::report_order_problems(const std::vector<LoopPredictor::Answer>& answers) {
  bool has_tie = false;
  std::vector<std::string> problems;
  for (const LoopPredictor::Answer& answer : answers) {
    has_tie = has_tie || answer.order != LoopPredictor::TieOrder::none;
    if (answer.order_problem.empty()) continue;
    problems.push_back(
        "OOM predictions decide between processes with equal points by pid, because the kernel's "
        "order cannot be read: " +
        answer.order_problem);
  }
  if (has_tie) prediction_problems_.report(std::move(problems));
}

void Core::time_passed() {
  const MonotonicTime now = parts_.clock.now();
  if (is_due(parts_.ladder.next_due(), now)) ladder_ready();
  if (is_due(evicted_pods_.next_due(), now)) evicted_pods_.check();
  for (sources::Source* source : parts_.sources) {
    if (is_due(source->next_due(), now)) source_ready(*source);
  }
  if (is_due(oom_kills_.next_due(), now)) {
    oom_kills_.report_complete(config_, parts_.clock.now());
  }
  parts_.forecast.time_passed();
  if (const auto wake = scheduler_.ready_wake(now)) round_.run(*wake);
  if (pods_.is_due(now)) pods_.reconcile();
  if (is_due(rules_.next_due(), now)) rules_.start(now);
  const Wake recheck{WakeSource::recheck, now, {}, {}};
  if (preparation_.pre_rank(now)) round_.run(recheck);
  preparation_.sample_for_growth(now);
  preparation_.prepare_guard(now);
  if (scheduler_.deadline_due(now)) round_.run(Wake{WakeSource::deadline, now, {}, {}});
  const bool pass_due = is_due(reporter_.next_pass(), now);
  if (pass_due) reporter_.begin_pass(now);
  if (is_due(parts_.guard.next_due(), now)) round_.run(recheck);
  if (tree_.recheck_at() <= now) {
    tree_.recheck();
    round_.run(recheck);
    preparation_.rechecked();
  } else if (scheduler_.retry_due(now) || pass_due) {
    round_.run(recheck);
  }
  preparation_.catch_up_guard();
}

MonotonicTime Core::next_due() const {
  MonotonicTime next = tree_.recheck_at();
  const auto consider = [&next](const std::optional<MonotonicTime>& due) {
    if (due) next = std::min(next, *due);
  };
  consider(scheduler_.next());
  consider(reporter_.next_pass());
  consider(pods_.next());
  consider(parts_.ladder.next_due());
  consider(evicted_pods_.next_due());
  consider(preparation_.next_due());
  consider(rules_.next_due());
  consider(oom_kills_.next_due());
  consider(parts_.forecast.next_due());
  consider(parts_.guard.next_due());
  for (const sources::Source* source : parts_.sources) consider(source->next_due());
  return next;
}

void Core::reload(Config config) {
  const bool same_rules = policy::same_rules(config_, config);
  evaluator_.reconfigure(config);
  config_ = std::move(config);
  rules_.reconfigured(config_);
  effects_.configured(config_);
  reporter_.reconfigured();
  crossings_.clear();
  parts_.observer.configure(config_);
  victim_cache_.reconfigured(same_rules);
  parts_.watchdog.withdraw();
  parts_.guard.disarm();
  tree_.refresh();
  pods_.reconcile();
  evicted_pods_.changed();
  evaluate(WakeSource::command);
}

void Core::evaluate(WakeSource source) {
  round_.run(Wake{source, parts_.clock.now(), {}, {}});
}

}  // namespace forestall::agent
