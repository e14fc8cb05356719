// SPDX-License-Identifier: Apache-2.0
#include "agent/core.h"

#include <algorithm>
#include <utility>

#include "agent/wall_time.h"
#include "policy/deadlines.h"

namespace forestall::agent {
namespace {

// Kills begun in one evaluation before the loop serves other events. Each is for another subject,
// or for the next victim of one whose memory the last victim cannot satisfy.
constexpr int kMaxKillsPerEvaluation = 16;

bool is_due(const std::optional<MonotonicTime>& due, MonotonicTime now) {
  return due && *due <= now;
}

}  // namespace

Core::Core(Parts parts, Config config)
    : parts_(std::move(parts)),
      config_(std::move(config)),
      tree_(*parts_.clock, *parts_.observer, *parts_.log, *parts_.watchdog, config_,
            parts_.told_of_cgroups),
      growth_(*parts_.clock, *parts_.observer),
      readiness_(*parts_.observer, *parts_.ladder, growth_),
      evaluator_({*parts_.clock, *parts_.observer, *parts_.ladder, *parts_.reclaim, tree_,
                  readiness_, growth_, config_}),
      reporter_(parts_),
      kills_({*parts_.clock, *parts_.observer, *parts_.ladder, *parts_.watchdog, *parts_.guard,
              readiness_, tree_, scheduler_, reporter_, *parts_.log, parts_.sinks}),
      lines_(parts_.sources, parts_.told_of_usage, *parts_.log),
      oom_kills_(parts_.sinks, *parts_.foresight),
      own_limits_(*parts_.log, *parts_.throttle),
      pods_(*parts_.clock, *parts_.observer, *parts_.tree, *parts_.log, config_) {}

// ---- what causes evaluations ----

void Core::start() {
  tree_.refresh_changed();
  pods_.reconcile();
  growth_.look_calmly(config_);
  evaluate(WakeSource::startup);
}

void Core::source_ready(sources::Source& source) {
  std::vector<Wake> wakes;
  source.drain(parts_.clock->now(), wakes);
  for (const Wake& wake : wakes) {
    if (wake.source == WakeSource::workload_change) tree_.note_change();
    oom_kills_.note(wake);
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
  kills_.advance();
  evaluate(WakeSource::kill_progress);
}

void Core::reclaim_ready() {
  if (parts_.reclaim->finish(*parts_.log)) evaluate(WakeSource::node_reclaim);
}

void Core::watchdog_ready() {
  evaluate(WakeSource::watchdog);
}

void Core::guard_ready() {
  const MonotonicTime woken = parts_.clock->now();
  kills_.take_guard_kills();
  evaluate(Wake{WakeSource::guard, woken, {}, {}});
}

void Core::foresight_ready() {
  for (const OomForecast::Answer& answer : parts_.foresight->collect()) {
    if (!parts_.log->writes(exports::LogLevel::debug)) continue;
    exports::LogLine line("foresight");
    line.field("domain", answer.path).field("verdict", to_string(answer.verdict));
    if (answer.victim) line.field("pid", answer.victim->pid);
    line.field("took_us", answer.took);
    parts_.log->write(exports::LogLevel::debug, line);
  }
}

void Core::time_passed() {
  const MonotonicTime now = parts_.clock->now();
  if (is_due(parts_.ladder->next_look(), now)) ladder_ready();
  for (sources::Source* source : parts_.sources) {
    if (is_due(source->next_look(), now)) source_ready(*source);
  }
  if (is_due(parts_.oom_events->next_look(), now)) report_kernel_kills();
  parts_.foresight->time_passed();
  if (const auto wake = scheduler_.deferred_due(now)) evaluate(*wake);
  if (pods_.is_due(now)) pods_.reconcile();
  if (is_due(readiness_.next_look(), now)) make_ready(now);
  if (scheduler_.deadline_due(now)) evaluate(Wake{WakeSource::deadline, now, {}, {}});
  const Wake recheck{WakeSource::recheck, now, {}, {}};
  if (is_due(parts_.guard->next_look(), now)) evaluate(recheck);
  if (tree_.recheck_at() <= now) {
    tree_.recheck();
    evaluate(recheck);
    if (!scheduler_.holds() && readiness_.subjects().empty()) growth_.look_calmly(config_);
  } else if (scheduler_.hold_due(now)) {
    evaluate(recheck);
  }
}

MonotonicTime Core::next_look() const {
  MonotonicTime next = tree_.recheck_at();
  const auto consider = [&next](const std::optional<MonotonicTime>& due) {
    if (due) next = std::min(next, *due);
  };
  consider(scheduler_.next());
  consider(pods_.next());
  consider(parts_.ladder->next_look());
  consider(readiness_.next_look());
  consider(parts_.oom_events->next_look());
  consider(parts_.foresight->next_look());
  consider(parts_.guard->next_look());
  for (const sources::Source* source : parts_.sources) consider(source->next_look());
  return next;
}

void Core::make_ready(MonotonicTime now) {
  if (!readiness_.working()) return evaluate(Wake{WakeSource::recheck, now, {}, {}});
  tree_.refresh_if_stale(now);
  readiness_.work(config_, parts_.ladder->progress(), now);
  if (readiness_.working()) return;
  kills_.post_orders(config_);
  parts_.guard->ranked();
}

void Core::reload(Config config) {
  const bool same_rules = policy::same_rules(config_, config);
  evaluator_.reconfigure(config);
  config_ = std::move(config);
  reporter_.reconfigured();
  parts_.observer->configure(config_);
  readiness_.reconfigured(same_rules);
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
  ++looks_;
  scheduler_.begin(woken);
  decide_all(wake, woken);
  if (tree_.changed() && parts_.clock->now() < tree_.change_due()) {
    scheduler_.defer(Wake{WakeSource::workload_change, woken, {}, {}}, tree_.change_due());
  } else if (tree_.changed()) {
    tree_.refresh_changed();
    decide_all(wake, woken);  // arms what was just found
  }
  parts_.watchdog->looked();
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
  const bool signalled = kills && kills_.signal(record.decision);
  // What follows happens while the victims are dying already.
  record.wall_time_ns = wall_time_ns();
  if (kills && !signalled) {
    reporter_.report_pass(config_, evaluator_.state_before(record), record);
    return false;
  }
  scheduler_.set_deadline(policy::next_deadline(config_, evaluator_.state()));
  if (!kills) rest(record);
  log_evaluation(record);
  if (record.decision.action == Action::reclaim) {
    parts_.log->write(
        exports::LogLevel::warning,
        exports::LogLine("node-reclaim").field("begun", parts_.reclaim->start(record.decision)));
  }
  report(std::move(record));
  return kills;
}

// Arms the sources, until the next wake.
void Core::rest(const Record& record) {
  const MonotonicTime now = parts_.clock->now();
  const auto lines = lines_.arm(config_, record.observation, record.decision, now);
  scheduler_.set_lines(lines);
  // The kernel's points change with every page: that ranking is made at the crossing only.
  if (config_.ranking != Ranking::kernel) readiness_.note(lines, now);
  if (readiness_.subjects().empty()) parts_.watchdog->withdraw();
  scheduler_.hold(record.decision, record.stages.decided);
  kills_.withdraw_if_met(record.decision);
}

void Core::report(Record record) {
  const bool kills = record.decision.action == Action::kill;
  reporter_.report_pass(config_, evaluator_.state_before(record), record);
  bool near_own_limit = false;
  // A pre-ranked decision read a part of the node only; after its kill the next evaluation follows
  // at once and reads all of it.
  if (!record.prepared) {
    reporter_.report_look(record, tree_.recheck_at());
    near_own_limit = own_limits_.look(config_, record.decision);
  }
  // While a victim's memory is pending release, neither the kernel's next victim nor the guard's
  // list can be computed.
  if (!record.prepared && !kills) {
    parts_.foresight->looked(record.observation, record.decision);
    parts_.guard->looked(config_, record, readiness_, growth_);
  }
  if (kills) {
    kills_.record_loop_kills(record);
  } else {
    if (near_own_limit) {
      reporter_.report(record);
    } else {
      reporter_.report_news(record);
    }
    reporter_.survey(evaluator_, record.stages.decided);
  }
  oom_kills_.keep(std::move(record), evaluator_.state());
}

// Each once, when it is known as well as it will be.
void Core::report_kernel_kills() {
  const MonotonicTime now = parts_.clock->now();
  std::vector<OomKillSighting> kills;
  parts_.oom_events->take(now, kills);
  for (const OomKillSighting& kill : kills) {
    ++kernel_kills_;
    oom_kills_.tell(kill, config_, reporter_.next_sequence(), now, wall_time_ns());
  }
}

void Core::log_evaluation(const Record& record) const {
  if (!parts_.log->writes(exports::LogLevel::debug)) return;
  const StageTimes& stages = record.stages;
  parts_.log->write(exports::LogLevel::debug,
                    exports::LogLine("look")
                        .field("wake", to_string(record.observation.wake.source))
                        .field("reason", to_string(record.decision.reason))
                        .field("wake_us", stages.woken - stages.crossed)
                        .field("observe_us", stages.observed - stages.woken)
                        .field("decide_us", stages.decided - stages.observed)
                        .field("act_and_arm_us", parts_.clock->now() - stages.decided));
}

}  // namespace forestall::agent
