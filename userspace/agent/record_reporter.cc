// SPDX-License-Identifier: Apache-2.0
#include "agent/record_reporter.h"

#include <algorithm>
#include <string>

namespace forestall::agent {

void RecordReporter::report_pass(const Config& config, const policy::State& before,
                                 const Record& record) {
  for (exports::RecordSink* sink : sinks_) sink->passed({config, reloads_, before, record});
}

void RecordReporter::report_look(const Record& record, MonotonicTime next) {
  const exports::Look look{record.observation, record.decision, next};
  for (exports::RecordSink* sink : sinks_) sink->looked(look);
}

void RecordReporter::report(Record& record) {
  record.sequence = next_sequence();
  set_last(record.decision);
  for (exports::RecordSink* sink : sinks_) sink->write(record);
}

void RecordReporter::report_news(Record& record) {
  if (!is_repetition(record.decision)) report(record);
}

bool RecordReporter::is_repetition(const Decision& decision) const {
  if (std::ranges::any_of(decision.conditions, &ConditionStatus::changed)) return false;
  if (decision.reason == Reason::no_threshold_met && !last_reported_) return true;
  if (!last_reported_) return false;
  const auto subject = [](const Decision& of) {
    return of.driving ? of.evidence[*of.driving].subject : std::string();
  };
  return last_reported_->action == decision.action && last_reported_->reason == decision.reason &&
         subject(*last_reported_) == subject(decision);
}

void RecordReporter::survey(Evaluator& evaluator, const Clock& clock, MonotonicTime now) {
  const auto wants = [&](exports::RecordSink* sink) { return sink->wants_survey(now); };
  if (std::ranges::none_of(sinks_, wants)) return;
  const MonotonicTime began = clock.now();
  const auto workloads = evaluator.sample_workloads();
  if (!workloads) return;
  const Duration took = clock.now() - began;
  for (exports::RecordSink* sink : sinks_) sink->surveyed({began, took, *workloads});
}

}  // namespace forestall::agent
