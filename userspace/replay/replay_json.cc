// SPDX-License-Identifier: Apache-2.0
#include "forestall/internal/replay.pb.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "replay/comparison_text.h"
#include "replay/replay_report.h"

namespace forestall::replay {

void ReplayJson::evaluation(const ReplayEvaluation& evaluation, std::string& out) {
  internal::ReplayStep step;
  step.set_line(evaluation.line);
  step.set_at_ns(to_ns(evaluation.observation.at));
  step.set_since_first_ns(evaluation.since_first.count());
  *step.mutable_decision() = messages::to_proto(evaluation.decision);
  for (const SourceNote& note : evaluation.observation.notes)
    *step.add_notes() = messages::to_proto(note);
  if (evaluation.step != nullptr) {
    step.set_as_recorded(evaluation.step->as_recorded);
    if (!evaluation.step->as_recorded && evaluation.step->recorded) {
      *step.mutable_recorded() = messages::to_proto(*evaluation.step->recorded);
    }
    step.set_restarted(evaluation.step->restarted_after.has_value());
    if (evaluation.step->age) step.set_workloads_age_ns(evaluation.step->age->count());
  }
  out += messages::to_json(step, messages::JsonStyle::line);
  out += '\n';
}

void ReplayJson::end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                     const RecordingReplay* replay, std::string& out) {
  internal::ReplayEnd end;
  internal::ReplaySummary& summary = *end.mutable_summary();
  summary.set_observations(counts.observations);
  summary.set_prepared(counts.prepared);
  if (counts.first) {
    summary.set_first_ns(to_ns(*counts.first));
    summary.set_last_ns(to_ns(*counts.last));
  }
  for (const auto& [decision, count] : counts.decisions) {
    internal::DecisionCount& added = *summary.add_decisions();
    added.set_action(messages::to_proto(decision.first));
    added.set_reason(messages::to_proto(decision.second));
    added.set_count(count);
  }
  for (const auto& [signal, count] : counts.kubelet_evictions.counts()) {
    internal::EvictionCount& added = *summary.add_kubelet_evictions();
    added.set_eviction_signal(signal);
    added.set_count(count);
  }
  for (std::size_t i = 0; i < kConditions.size(); ++i) {
    if (counts.conditions[i].changes == 0) continue;
    internal::ConditionChanges& added = *summary.add_condition_changes();
    added.set_type(std::string(to_string(kConditions[i])));
    added.set_count(counts.conditions[i].changes);
    added.set_status(counts.conditions[i].status);
  }
  if (stopped) summary.set_stopped(*stopped);
  if (replay != nullptr) *end.mutable_comparison() = comparison_of(*replay);
  out += messages::to_json(end, messages::JsonStyle::line);
  out += '\n';
}

}  // namespace forestall::replay
