// SPDX-License-Identifier: Apache-2.0
#include "agent/record_reporter.h"

#include <algorithm>
#include <string>

namespace forestall::agent {

void RecordReporter::report_pass(const Config& config, const policy::State& before,
                                 const Record& record) {
  ++parts_.counts->evaluations;
  for (auto* listener : parts_.pass_listeners) listener->passed({config, reloads_, before, record});
}

std::optional<MonotonicTime> RecordReporter::next_pass() const {
  std::optional<MonotonicTime> next;
  for (const auto* listener : parts_.pass_listeners) {
    const auto interval = listener->pass_interval();
    if (interval && (!next || last_pass_ + *interval < *next)) next = last_pass_ + *interval;
  }
  return next;
}

void RecordReporter::report_evaluation(const Record& record, MonotonicTime next,
                                       const exports::PodFactCounts& pods) {
  conditions_ = record.decision.conditions;
  const exports::Evaluation evaluation{record.observation, record.decision, next, pods};
  for (auto* listener : parts_.evaluation_listeners) listener->evaluated(evaluation);
}

void RecordReporter::report_next_victims(std::span<const NextVictim> next_victims) {
  for (auto* listener : parts_.evaluation_listeners) listener->pre_ranked(next_victims);
}

void RecordReporter::report(Record& record) {
  set_last(record.decision);
  writer_.write(record);
}

void RecordReporter::report_unless_repeated(Record& record) {
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

void RecordReporter::workload_sample(Evaluator& evaluator, MonotonicTime now) {
  const auto needs_pass = [&](exports::PassListener* listener) {
    return listener->needs_workload_sample(now);
  };
  if (std::ranges::none_of(parts_.pass_listeners, needs_pass)) return;
  const MonotonicTime began = parts_.clock.now();
  const auto workloads = evaluator.sample_workloads();
  if (!workloads) return;
  const Duration took = parts_.clock.now() - began;
  for (auto* listener : parts_.pass_listeners) listener->sampled({began, took, *workloads});
}

}  // namespace forestall::agent
