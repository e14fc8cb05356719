// SPDX-License-Identifier: Apache-2.0
#include "policy/deadlines.h"

#include <algorithm>

#include "policy/saturating.h"

namespace forestall::policy {
namespace {

const Threshold* threshold_at(const Config& config, const State& state, std::size_t index) {
  if (state.derived) {
    for (const DerivedThreshold& one : *state.derived) {
      if (one.index == index) return &one.threshold;
    }
  }
  return index < config.thresholds.size() ? &config.thresholds[index] : nullptr;
}

}  // namespace

std::optional<MonotonicTime> next_deadline(const Config& config, const State& state) {
  std::optional<MonotonicTime> next;
  const auto add = [&](MonotonicTime time) {
    if (state.at && time <= *state.at) return;
    if (!next || time < *next) next = time;
  };
  if (state.cleanup_until) add(*state.cleanup_until);
  if (state.held_until) add(*state.held_until);
  for (const State::Met& met : state.met) {
    const Threshold* threshold = threshold_at(config, state, met.id.threshold);
    if (threshold == nullptr || threshold->hard()) continue;
    add(later(met.since, threshold->grace));  // in the past once it drives
  }
  for (const State::Reported& condition : state.conditions) {
    // A threshold that is met now is met again in the next step, and lasts from then on.
    if (!condition.status || condition.last_met == state.at) continue;
    add(later(*condition.last_met, config.pressure_transition));
  }
  return next;
}

}  // namespace forestall::policy
