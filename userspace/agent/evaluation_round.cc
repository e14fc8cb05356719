// SPDX-License-Identifier: Apache-2.0
#include "agent/evaluation_round.h"

#include <utility>

#include "agent/evaluation_log.h"
#include "agent/wall_time.h"
#include "exports/log_line.h"
#include "policy/deadlines.h"

namespace forestall::agent {

using exports::LoopWork;
using exports::LoopWorkScope;

namespace {

// Evaluations that follow a kill at once. Each kill is for another subject, or is of the next
// victim of one whose memory the last victim cannot satisfy.
constexpr int kMaxKillsInARow = 16;

}  // namespace

void EvaluationRound::run(const Wake& wake) {
  const Clock& clock = parts_.agent.clock;
  TreeRefresher& tree = parts_.tree;
  parts_.kills.take_watchdog_kill();
  const MonotonicTime woken = clock.now();
  parts_.scheduler.begin(woken);
  parts_.agent.ladder.note_suspends();
  bool killed = decide_some(wake, woken);
  if (!killed && tree.changed() && clock.now() >= tree.rescan_at() && tree.scan_changed()) {
    killed = decide_some(wake, woken);  // arms what was just found
  }
  kills_in_a_row_ = killed ? kills_in_a_row_ + 1 : 0;
  if (kills_in_a_row_ % kMaxKillsInARow > 0) {
    // Another crossing may have come meanwhile: the loop serves it before a further kill.
    parts_.scheduler.defer(wake, clock.now());
  } else if (tree.changed() && clock.now() < tree.rescan_at()) {
    parts_.scheduler.defer(Wake{WakeSource::workload_change, woken, {}, {}}, tree.rescan_at());
  }
  parts_.agent.watchdog.evaluated();
}

// True when a further evaluation has to follow at once, because a kill was begun.
bool EvaluationRound::decide_some(const Wake& wake, MonotonicTime woken) {
  // One scan of all processes serves all of these.
  const int evaluations = parts_.config.ranking == Ranking::kernel ? kMaxKillsInARow : 1;
  for (int i = 0; i < evaluations; ++i) {
    if (!decide(wake, woken)) return false;
  }
  return true;
}

// True when a kill was begun.
bool EvaluationRound::decide(const Wake& wake, MonotonicTime woken) {
  Record record = evaluate(wake, woken);
  const bool kills = record.decision.action == Action::kill;
  const bool signalled = kills && signal(record.decision);
  // What follows happens while the victims are dying already.
  parts_.agent.guard.decided(record);
  record.wall_time_ns = wall_time_ns();
  note_crossings(record);
  if (kills && !signalled) {
    parts_.reporter.report_pass(parts_.config, parts_.evaluator.state_before(record), record);
    return false;
  }
  parts_.scheduler.set_deadline(policy::next_deadline(parts_.config, parts_.evaluator.state()));
  if (!kills) arm(record);
  log_evaluation(parts_.agent.log, record, parts_.agent.clock);
  if (parts_.effects.evaluated(parts_.config, parts_.evaluator.state(), record)) {
    parts_.kills.restart_requested();
  }
  start_reclaim(record.decision);
  report(std::move(record));
  return kills;
}

Record EvaluationRound::evaluate(const Wake& wake, MonotonicTime woken) {
  Record record = parts_.evaluator.evaluate(wake, parts_.scheduler.began_at());
  record.stages.crossed = wake.at;
  record.stages.woken = woken;
  record.stages.decided = parts_.agent.clock.now();
  return record;
}

bool EvaluationRound::signal(const Decision& decision) {
  const LoopWorkScope work_scope(parts_.agent.counts->work, LoopWork::kill);
  return parts_.kills.signal(decision);
}

// The evaluation may have found a crossing whose event is still in the ring.
void EvaluationRound::note_crossings(Record& record) {
  CrossingTracker& crossings = parts_.crossings;
  for (const sources::Source* source : parts_.agent.sources) {
    for (const SourceReadings& reading : source->last_readings()) crossings.add(reading);
  }
  crossings.evaluated(record);
  if (const auto driving = record.decision.driving) {
    record.crossing = crossings.bounds(record.decision.evidence[*driving], record.stages.observed);
  }
}

void EvaluationRound::start_reclaim(const Decision& decision) {
  if (decision.action != Action::reclaim) return;
  parts_.agent.log.write(
      exports::LogLevel::warning,
      exports::LogLine("node-reclaim").field("begun", parts_.agent.reclaim.start(decision)));
}

// Arms the sources, until the next wake.
void EvaluationRound::arm(const Record& record) {
  const LoopWorkScope work_scope(parts_.agent.counts->work, LoopWork::arm);
  const MonotonicTime now = parts_.agent.clock.now();
  const auto [lines, hint_headroom] =
      lines_.arm(parts_.config, record.observation, record.decision, now);
  parts_.scheduler.set_hint_headroom(hint_headroom);
  // The kernel's points change with every page: that ranking is made at the crossing only.
  if (parts_.config.ranking != Ranking::kernel) parts_.victim_cache.note(lines, now);
  if (parts_.victim_cache.subjects().empty()) parts_.agent.watchdog.withdraw();
  parts_.scheduler.schedule_retry(record.decision, record.stages.decided);
  parts_.kills.withdraw_if_met(record.decision);
}

// A pre-ranked decision read a part of the node only; after its kill the next evaluation follows at
// once and reads all of it.
void EvaluationRound::report(Record record) {
  const LoopWorkScope work_scope(parts_.agent.counts->work, LoopWork::report);
  RecordReporter& reporter = parts_.reporter;
  reporter.report_pass(parts_.config, parts_.evaluator.state_before(record), record);
  const bool near_own_limit = !record.prepared && report_complete(record);
  if (record.decision.action == Action::kill) {
    parts_.kills.record_loop_kills(record);
  } else {
    if (near_own_limit) {
      reporter.report(record);
    } else {
      reporter.report_unless_repeated(record);
    }
    reporter.workload_sample(parts_.evaluator, record.stages.decided);
  }
  parts_.evaluator.keep_workloads(record);
  parts_.oom_kills.keep(std::move(record), parts_.evaluator.state());
}

// An evaluation that read all of the node. True when a workload is near its own limit that was not.
bool EvaluationRound::report_complete(Record& record) {
  const Decision& decision = record.decision;
  parts_.left_behind.evaluated(decision);
  parts_.kills.evaluated(record);
  exports::PodFactCounts pods = parts_.tree.pod_facts();
  pods.annotations = parts_.annotations.counts();
  parts_.reporter.report_evaluation(record, parts_.tree.recheck_at(), pods);
  parts_.reporter.report_next_victims(parts_.victim_cache.next_victims(
      parts_.config, &decision, parts_.kills.all_kills(), parts_.agent.clock.now()));
  const bool near_own_limit = own_limits_.evaluate(parts_.config, decision);
  // While a victim's memory is pending release, neither the kernel's next victim nor the guard's
  // list can be computed.
  if (decision.action == Action::kill) return near_own_limit;
  parts_.agent.forecast.evaluated(record.observation, decision);
  const LoopWorkScope guard_scope(parts_.agent.counts->work, LoopWork::guard);
  parts_.agent.guard.evaluated(parts_.config, record, parts_.victim_cache, parts_.growth);
  return near_own_limit;
}

}  // namespace forestall::agent
