// SPDX-License-Identifier: Apache-2.0
#include "api/convert.h"
#include "api/json.h"
#include "cli/comparison_text.h"
#include "cli/replay_report.h"
#include "forestall/v1/replay.pb.h"

namespace forestall::cli {

void ReplayJson::look(const ReplayLook& look, std::string& out) {
  v1::ReplayStep step;
  step.set_line(look.line);
  step.set_at_ns(to_ns(look.observation.at));
  step.set_since_first_ns(look.since_first.count());
  *step.mutable_decision() = api::to_proto(look.decision);
  for (const SourceNote& note : look.observation.notes) *step.add_notes() = api::to_proto(note);
  if (look.step != nullptr) {
    step.set_as_recorded(look.step->as_recorded);
    if (!look.step->as_recorded && look.step->recorded) {
      *step.mutable_recorded() = api::to_proto(*look.step->recorded);
    }
    if (look.step->age) step.set_workloads_age_ns(look.step->age->count());
  }
  out += api::to_json(step, api::JsonStyle::line);
  out += '\n';
}

void ReplayJson::end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                     const RecordingReplay* replay, std::string& out) {
  v1::ReplayEnd end;
  v1::ReplaySummary& summary = *end.mutable_summary();
  summary.set_observations(counts.observations);
  if (counts.first) {
    summary.set_first_ns(to_ns(*counts.first));
    summary.set_last_ns(to_ns(*counts.last));
  }
  for (const auto& [decision, count] : counts.decisions) {
    v1::DecisionCount& added = *summary.add_decisions();
    added.set_action(api::to_proto(decision.first));
    added.set_reason(api::to_proto(decision.second));
    added.set_count(count);
  }
  for (const auto& [signal, count] : counts.evictions) {
    v1::EvictionCount& added = *summary.add_kubelet_evictions();
    added.set_eviction_signal(signal);
    added.set_count(count);
  }
  for (std::size_t i = 0; i < kConditions.size(); ++i) {
    if (counts.conditions[i].changes == 0) continue;
    v1::ConditionChanges& added = *summary.add_condition_changes();
    added.set_type(std::string(to_string(kConditions[i])));
    added.set_count(counts.conditions[i].changes);
    added.set_status(counts.conditions[i].status);
  }
  if (stopped) summary.set_stopped(*stopped);
  if (replay != nullptr) *end.mutable_comparison() = comparison_of(*replay);
  out += api::to_json(end, api::JsonStyle::line);
  out += '\n';
}

}  // namespace forestall::cli
