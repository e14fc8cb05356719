// SPDX-License-Identifier: Apache-2.0
#include "model/stage.h"

#include <algorithm>

namespace forestall {
namespace {

std::optional<Duration> length(const std::optional<MonotonicTime>& from,
                               const std::optional<MonotonicTime>& to) {
  if (!from || !to) return std::nullopt;
  return std::max(*to - *from, Duration::zero());
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
  }
  return "";
}

StageLengths stage_lengths(const Record& record) {
  const StageTimes& times = record.stages;
  StageLengths lengths;
  lengths[0] = length(times.crossed, times.woken);
  lengths[1] = length(times.woken, times.observed);
  lengths[2] = length(times.observed, times.decided);
  if (!record.outcome) return lengths;
  const Outcome& outcome = *record.outcome;
  lengths[3] = length(times.decided, outcome.signalled);
  lengths[4] = length(outcome.signalled, outcome.exited);
  lengths[5] = length(outcome.signalled, outcome.released);
  return lengths;
}

}  // namespace forestall
