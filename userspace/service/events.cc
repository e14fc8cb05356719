// SPDX-License-Identifier: Apache-2.0
#include "service/events.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/saturating.h"
#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::service {
namespace {

using messages::to_enum;
using messages::to_proto;

// The wall time of an instant of the record, whose own wall time is that of its decision. A damaged
// or hostile recording may have any times, so the sum saturates.
std::int64_t wall_time_ns(const v1::Record& record, std::int64_t at_ns) {
  __extension__ using Wide = __int128;
  using Limits = std::numeric_limits<std::int64_t>;
  const Wide sum = Wide{record.wall_time().seconds()} * 1'000'000'000 + record.wall_time().nanos() +
                   at_ns - record.stages().decided_ns();
  return static_cast<std::int64_t>(std::clamp(sum, Wide{Limits::min()}, Wide{Limits::max()}));
}

v1::Event event_at(std::int64_t at_ns, std::int64_t wall_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  // Nanoseconds of a google.protobuf.Timestamp are never negative, also before 1970.
  const std::int64_t seconds = wall_ns / kSecond - (wall_ns % kSecond < 0 ? 1 : 0);
  const std::int64_t rest = wall_ns % kSecond + (wall_ns % kSecond < 0 ? kSecond : 0);
  v1::Event event;
  event.set_at_ns(at_ns);
  event.mutable_wall_time()->set_seconds(seconds);
  event.mutable_wall_time()->set_nanos(static_cast<std::int32_t>(rest));
  return event;
}

v1::Event event_at(const v1::Record& record, std::int64_t at_ns) {
  return event_at(at_ns, wall_time_ns(record, at_ns));
}

// Available amount and threshold, in the signal's unit.
struct ComparedAmounts {
  std::int64_t available = 0;
  std::int64_t limit = 0;
};

void set_crossing(const std::tuple<std::string, std::string, Duration>& threshold, bool met,
                  const ComparedAmounts& amounts, v1::ThresholdEvent& crossing) {
  const auto& [signal, subject, grace] = threshold;
  crossing.set_signal(signal);
  crossing.set_subject(subject);
  crossing.set_grace_ns(grace.count());
  crossing.set_met(met);
  crossing.set_available(amounts.available);
  crossing.set_limit(amounts.limit);
}

bool is_index(std::uint32_t index, int size) {
  return index < static_cast<std::uint32_t>(size);
}

void report_conditions(const v1::Record& record, const EventVisit& visit) {
  for (const v1::ConditionStatus& each : record.decision().conditions()) {
    if (!each.changed()) continue;
    v1::Event event = event_at(record, record.stages().decided_ns());
    *event.mutable_condition() = each;
    visit(event);
  }
}

void report_decision(const v1::Record& record, const EventVisit& visit) {
  const v1::Decision& decision = record.decision();
  v1::Event event = event_at(record, record.stages().decided_ns());
  v1::DecisionEvent& out = *event.mutable_decision();
  out.set_sequence(record.sequence());
  out.set_action(decision.action());
  out.set_reason(decision.reason());
  if (decision.has_driving() && is_index(decision.driving(), decision.evidence_size())) {
    const v1::Evidence& evidence = decision.evidence(static_cast<int>(decision.driving()));
    out.set_signal(evidence.threshold().signal());
    out.set_subject(evidence.subject());
  }
  if (decision.has_victim() && is_index(decision.victim(), decision.considered_size())) {
    const v1::WorkloadSample& sample =
        decision.considered(static_cast<int>(decision.victim())).sample();
    out.set_victim(sample.workload().name());
    if (sample.has_usage_bytes()) out.set_usage_bytes(sample.usage_bytes());
    event.set_cgroup_id(sample.workload().cgroup_id());
    event.set_cgroup(sample.workload().path());
  }
  visit(event);
}

void report_outcome(const v1::Record& record, const EventVisit& visit) {
  const v1::Outcome& outcome = record.outcome();
  v1::Event event = event_at(record, outcome.has_released_ns()    ? outcome.released_ns()
                                     : outcome.has_exited_ns()    ? outcome.exited_ns()
                                     : outcome.has_signalled_ns() ? outcome.signalled_ns()
                                                                  : outcome.began_ns());
  event.set_cgroup_id(outcome.victim().cgroup_id());
  event.set_cgroup(outcome.victim().path());
  v1::OutcomeEvent& out = *event.mutable_outcome();
  out.set_sequence(record.sequence());
  out.set_victim(outcome.victim().name());
  out.set_dry_run(outcome.dry_run());
  out.set_state(outcome.state());
  out.set_freed_bytes(outcome.freed_bytes());
  if (outcome.has_signalled_ns()) {
    const bool bounded = record.has_crossing();
    const std::int64_t crossed =
        bounded ? record.crossing().last_above().at_ns() : record.stages().crossed_ns();
    if (!bounded || record.crossing().has_last_above()) {
      out.set_signalled_after_ns(saturating_subtract(outcome.signalled_ns(), crossed));
    }
    if (outcome.has_released_ns()) {
      out.set_freed_after_ns(saturating_subtract(outcome.released_ns(), outcome.signalled_ns()));
    }
  }
  visit(event);
}

void report_oom_kill(const v1::Record& record, const EventVisit& visit) {
  const v1::OomKillEvent& kill = record.oom_kill().event();
  v1::Event event = event_at(record, kill.at_ns());
  // The record's stages are those of the last evaluation before; its wall time is that of the kill.
  *event.mutable_wall_time() = record.wall_time();
  if (kill.has_cgroup_id()) event.set_cgroup_id(kill.cgroup_id());
  event.set_cgroup(kill.path());
  *event.mutable_oom_kill() = record.oom_kill();
  visit(event);
}

}  // namespace

void events_of(const v1::Record& record, const EventVisit& visit) {
  if (record.has_oom_kill()) {
    report_oom_kill(record, visit);
  } else if (record.has_outcome()) {
    report_outcome(record, visit);
  } else {
    report_conditions(record, visit);
    report_decision(record, visit);
  }
}

void EvaluationEvents::report(const v1::Record& record, const EventVisit& visit) {
  if (record.has_oom_kill() || record.has_outcome()) return;
  if (record.decision().action() != v1::Decision::KILL) return;
  for (const v1::Evidence& each : record.decision().evidence()) {
    if (!each.met()) continue;
    const ThresholdOfSubject threshold{each.threshold().signal(), each.subject(),
                                       Duration(each.threshold().grace_ns())};
    if (std::exchange(met_[threshold], true)) continue;
    v1::Event event = event_at(record, record.stages().decided_ns());
    set_crossing(threshold, true, {each.available(), each.limit()}, *event.mutable_threshold());
    visit(event);
  }
}

void EvaluationEvents::report(const exports::EvaluationNote& note, const EventVisit& visit) {
  v1::Event event = event_at(to_ns(note.decided), note.wall_time_ns);
  v1::EvaluationEvent& evaluation = *event.mutable_evaluation();
  evaluation.set_wake(to_enum<v1::Wake::Source>(note.wake));
  evaluation.set_action(to_proto(note.action));
  evaluation.set_reason(to_proto(note.reason));
  evaluation.set_length_ns((note.decided - note.woken).count());
  if (note.cgroup != CgroupId{}) event.set_cgroup_id(note.cgroup.inode);
  visit(event);
  if (!note.crossed) return;
  event.clear_cgroup_id();
  std::map<ThresholdOfSubject, bool> now;
  for (const Evidence& each : note.evidence) {
    const ThresholdOfSubject threshold{to_string(each.threshold.signal),
                                       text::to_utf8(each.subject), each.threshold.grace};
    now[threshold] = each.met;
    const auto before = met_.find(threshold);
    if ((before != met_.end() && before->second) == each.met) continue;
    set_crossing(threshold, each.met, {each.available, each.limit.value()},
                 *event.mutable_threshold());
    visit(event);
  }
  met_ = std::move(now);
}

v1::Event::Kind kind_of(const v1::Event& event) {
  switch (event.what_case()) {
    case v1::Event::kEvaluation: return v1::Event::EVALUATION;
    case v1::Event::kThreshold: return v1::Event::THRESHOLD;
    case v1::Event::kCondition: return v1::Event::CONDITION;
    case v1::Event::kDecision: return v1::Event::DECISION;
    case v1::Event::kOutcome: return v1::Event::OUTCOME;
    case v1::Event::kOomKill: return v1::Event::OOM_KILL;
    case v1::Event::kLost: return v1::Event::LOST;
    case v1::Event::kSpan: return v1::Event::SPAN;
    case v1::Event::kPressure: return v1::Event::PRESSURE;
    case v1::Event::kUsage: return v1::Event::USAGE;
    case v1::Event::kReclaimCount: return v1::Event::RECLAIM_COUNT;
    case v1::Event::kCgroupChange: return v1::Event::CGROUP;
    case v1::Event::kSummary: return v1::Event::SUMMARY;
    case v1::Event::kTraceStart: return v1::Event::TRACE_START;
    case v1::Event::kTraceEnd: return v1::Event::TRACE_END;
    case v1::Event::kRun: return v1::Event::RUN;
    case v1::Event::kReload: return v1::Event::RELOAD;
    case v1::Event::WHAT_NOT_SET: break;
  }
  return v1::Event::KIND_UNSPECIFIED;
}

}  // namespace forestall::service
