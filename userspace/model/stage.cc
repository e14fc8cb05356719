// SPDX-License-Identifier: Apache-2.0
#include "model/stage.h"

#include <algorithm>

#include "base/saturating.h"

namespace forestall {
namespace {

std::optional<Duration> length(const std::optional<MonotonicTime>& from,
                               const std::optional<MonotonicTime>& to) {
  if (!from || !to) return std::nullopt;
  return std::max(Duration(saturating_subtract(to_ns(*to), to_ns(*from))), Duration::zero());
}

// With a grace period the crossing is not what the signal waits for.
bool is_at_once(const Record& record) {
  const auto& evictions = record.decision.evictions;
  return evictions.empty() || evictions.front().at_once;
}

// From when on a reaction counts.
std::optional<MonotonicTime> earliest_crossing(const Record& record) {
  // Its cause is a container that was started again, not a crossing.
  if (record.decision.reason == Reason::pod_runs_again) return std::nullopt;
  if (!record.crossing) return record.stages.crossed;
  if (!record.crossing->above) return std::nullopt;
  return record.crossing->above->at;
}

}  // namespace

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::wake: return "wake";
    case Stage::observe: return "observe";
    case Stage::decide: return "decide";
    case Stage::signal: return "signal";
    case Stage::exit: return "exit";
    case Stage::freed: return "freed";
    case Stage::reaction: return "reaction";
  }
  return "";
}

StageLengths stage_lengths(const Record& record) {
  const StageTimes& times = record.stages;
  StageLengths lengths;
  const auto crossed = earliest_crossing(record);
  lengths[0] = length(is_at_once(record) ? crossed : times.crossed, times.woken);
  lengths[1] = length(times.woken, times.observed);
  lengths[2] = length(times.observed, times.decided);
  if (!record.outcome) return lengths;
  const Outcome& outcome = *record.outcome;
  lengths[3] = length(times.decided, outcome.signalled);
  lengths[4] = length(outcome.signalled, outcome.exited);
  lengths[5] = length(outcome.signalled, outcome.released);
  if (is_at_once(record)) lengths[6] = length(crossed, outcome.signalled);
  return lengths;
}

}  // namespace forestall
