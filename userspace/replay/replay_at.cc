// SPDX-License-Identifier: Apache-2.0
#include "replay/replay_at.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/printable.h"
#include "intake/wall_time.h"
#include "model/duration.h"
#include "replay/decision_text.h"
#include "tables/process_text.h"
#include "tables/rank_text.h"

namespace forestall::replay {
namespace {

std::vector<std::string> name_and_path(const Workload& workload) {
  return {workload.name, workload.path};
}

// The resource of the ranking.
Resource resource_of_decision(const Decision& decision) {
  for (const Evidence& evidence : decision.evidence) {
    if (evidence.requires_eviction()) return resource_of(evidence.threshold.signal);
  }
  return Resource::memory;
}

}  // namespace

Result<ReplayTime> parse_replay_time(std::string_view text) {
  if (const auto wall = intake::parse_wall_time(text)) return ReplayTime(WallTime{*wall});
  const auto since = parse_duration(text);
  if (since && *since >= Duration::zero()) return ReplayTime(*since);
  return error(
      fmt::format("--at: expected a time since the first evaluation like 12.5s, or a "
                  "wall-clock time like 2025-03-14T10:11:12Z, found '{}'",
                  text));
}

bool ReplayAt::is_after(const ReplayEvaluation& evaluation) const {
  if (const auto* since = std::get_if<Duration>(&time_)) return evaluation.since_first > *since;
  return evaluation.step != nullptr &&
         evaluation.step->evaluated.wall_time_ns > std::get<WallTime>(time_).ns;
}

std::optional<Duration> ReplayAt::last_before() const {
  if (over_ || !kept_) return std::nullopt;
  const auto* const wall = std::get_if<WallTime>(&time_);
  const bool at_the_time = wall == nullptr ? kept_->since_first == std::get<Duration>(time_)
                                           : kept_->step->evaluated.wall_time_ns == wall->ns;
  return at_the_time ? std::nullopt : std::optional(kept_->since_first);
}

void ReplayAt::evaluation(const ReplayEvaluation& evaluation, std::string&) {
  over_ = over_ || is_after(evaluation);
  if (over_) return;
  kept_ = Kept{evaluation.line, evaluation.since_first, evaluation.observation, evaluation.decision,
               std::nullopt};
  if (evaluation.step != nullptr) kept_->step = *evaluation.step;
}

void ReplayAt::end(const ReplayFold::Counts&, const std::optional<std::string>&,
                   const RecordingReplay* replay, std::string& out) {
  if (!kept_) return;
  if (as_json_) {
    const std::vector<ConditionStatus> none;
    ReplayJson().evaluation({kept_->line, kept_->since_first, kept_->observation, kept_->decision,
                             none, kept_->step ? &*kept_->step : nullptr},
                            out);
    return;
  }
  out += text(replay != nullptr ? replay->fold().config().ranking : ranking_);
}

std::string ReplayAt::text(Ranking ranking) const {
  const Decision& decision = kept_->decision;
  const MonotonicTime at = kept_->observation.at;
  std::string out = fmt::format("evaluation {} at {}", kept_->line, offset(kept_->since_first));
  if (kept_->step)
    out += fmt::format(", {}", intake::wall_time_text(kept_->step->evaluated.wall_time_ns));
  out += fmt::format(", woken by {}\n{} ({})\n\nthresholds\n",
                     to_string(kept_->observation.wake.source), to_string(decision.action),
                     to_string(decision.reason));
  for (const Evidence& evidence : decision.evidence) {
    out += fmt::format("  {}{}{}\n", describe(evidence, at), evidence.met ? ", met" : "",
                       evidence.driving ? ", drives" : "");
  }
  if (!decision.considered.empty()) {
    out += "\nranking";
    if (kept_->step && kept_->step->age) {
      out += fmt::format(", with usage read {} earlier", to_string(*kept_->step->age));
    }
    out += "\n" + tables::order_text(decision.considered, resource_of_decision(decision),
                                     {"workload", "cgroup"}, name_and_path, ranking);
  }
  for (const Eviction& eviction : decision.evictions) {
    out += fmt::format("\nevict {}: {}\n",
                       printable(decision.considered[eviction.candidate].sample.workload.name),
                       printable(eviction.message));
  }
  for (const SourceNote& note : kept_->observation.notes) {
    out += fmt::format("note: {}: {}\n", printable(note.subject), printable(note.problem));
  }
  if (kept_->step && !kept_->step->as_recorded && kept_->step->recorded) {
    const Decision& recorded = *kept_->step->recorded;
    out += fmt::format("\nrecorded: {} ({})\n", to_string(recorded.action),
                       to_string(recorded.reason));
  }
  return out;
}

}  // namespace forestall::replay
