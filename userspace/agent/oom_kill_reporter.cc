// SPDX-License-Identifier: Apache-2.0
#include "agent/oom_kill_reporter.h"

#include <algorithm>
#include <utility>

#include "agent/wall_time.h"
#include "policy/inaction.h"

namespace forestall::agent {
namespace {

// Whether the kernel's own counter of the subject reached its line. All other wakes are hints.
bool is_crossing(WakeSource source) {
  switch (source) {
    case WakeSource::usage_timer:
    case WakeSource::charge:
    case WakeSource::usage_eventfd:
    case WakeSource::high_tripwire:
    case WakeSource::poll: return true;
    default: return false;
  }
}

// A thousand processes may die with one victim: the candidates are recorded with the first.
void drop_candidates(Record& record) {
  record.observation.workloads.reset();
  record.decision.considered.clear();
  record.decision.evictions.clear();
}

}  // namespace

void OomKillReporter::note(const Wake& wake, MonotonicTime now) {
  note_absence(wake.at, now);
  if (!is_crossing(wake.source)) return;
  if (crossings_.size() == kCrossingsMax) crossings_.pop_front();
  crossings_.push_back({wake.cgroup.value_or(CgroupId{}), wake.at});
}

void OomKillReporter::note_absence(MonotonicTime since, MonotonicTime now) {
  if (now - since < kLate) return;
  if (absences_.size() == kAbsencesMax) absences_.pop_front();
  absences_.push_back({since, now});
}

// The earliest of the absences in which the kill was.
std::optional<MonotonicTime> OomKillReporter::away_since(const OomKillEvent& kill) const {
  std::optional<MonotonicTime> first;
  for (const Absence& each : absences_) {
    if (kill.at - each.since < kLate || kill.at > each.until) continue;
    if (!first || each.since < *first) first = each.since;
  }
  return first;
}

void OomKillReporter::keep(Record evaluation, const policy::State& state) {
  evaluations_.push_back({std::move(evaluation), state});
  const MonotonicTime needed = evaluations_.back().record.stages.decided - kEvaluationsAge;
  // The first one that is old enough stands for all of the time before.
  while (evaluations_.size() > 1 && (evaluations_.size() > kEvaluationsMax ||
                                     evaluations_[1].record.stages.decided <= needed)) {
    evaluations_.pop_front();
  }
}

// REQUIRES: there was an evaluation; start() makes one.
const OomKillReporter::RecentEvaluation& OomKillReporter::before(MonotonicTime kill) const {
  const auto found = std::find_if(
      evaluations_.rbegin(), evaluations_.rend(),
      [&](const RecentEvaluation& evaluation) { return evaluation.record.stages.decided <= kill; });
  return found == evaluations_.rend() ? evaluations_.front() : *found;
}

std::optional<MonotonicTime> OomKillReporter::crossed(const OomKillEvent& kill,
                                                      MonotonicTime after) const {
  // No armed line covers a cpuset or a memory policy.
  const bool of_a_cgroup = kill.constraint == Constraint::memcg;
  if (!of_a_cgroup && kill.constraint != Constraint::none) return std::nullopt;
  if (of_a_cgroup && kill.domain.inode == 0) return std::nullopt;
  std::optional<MonotonicTime> first;
  for (const CrossingTime& each : crossings_) {
    const bool counts = each.cgroup == kill.domain && each.at > after && each.at <= kill.at;
    if (counts && (!first || each.at < *first)) first = each.at;
  }
  return first;
}

void OomKillReporter::report_complete(const Config& config, MonotonicTime now) {
  std::vector<OomKillEvent> kills;
  events_.take(now, kills);
  for (const OomKillEvent& kill : kills) {
    ++counts_.kernel_oom_kills;
    report(kill, config, now, wall_time_ns());
  }
}

void OomKillReporter::report(const OomKillEvent& kill, const Config& config, MonotonicTime now,
                             std::int64_t wall_time_ns) {
  const RecentEvaluation& evaluation = before(kill.at);
  const Observation& observation = evaluation.record.observation;
  const Decision& decision = evaluation.record.decision;
  const policy::LoopTimes times{crossed(kill, observation.at), away_since(kill)};
  const auto answer =
      policy::inaction(config, evaluation.state, observation, decision, kill, times);
  Record record = evaluation.record;
  record.wall_time_ns = wall_time_ns - (now - kill.at).count();
  record.oom_kill = OomKill{kill, std::nullopt, answer.inaction, answer.since_crossing};
  if (answer.inaction == Inaction::stopped && times.away_since) {
    record.oom_kill->agent_away = kill.at - *times.away_since;
  }
  record.oom_kill->forecast = forecast_.of(kill);
  if (kill.with_another) drop_candidates(record);
  writer_.write(record);
}

}  // namespace forestall::agent
