// SPDX-License-Identifier: Apache-2.0
#include "agent/restart_tracker.h"

#include <algorithm>
#include <utility>

#include "model/unit_restart.h"

namespace forestall::agent {

Result<void> RestartTracker::start() {
  auto started = restarter_.start();
  refusal_ = started ? std::nullopt : std::optional(started.error());
  return started;
}

RestartTracker::Requested* RestartTracker::under_way(const std::string& unit) {
  const auto found = std::ranges::find_if(
      requested_, [&](const Requested& each) { return each.progress.path == unit && !each.ended; });
  return found == requested_.end() ? nullptr : &*found;
}

void RestartTracker::request(const std::string& unit) {
  if (under_way(unit) != nullptr) return;
  requested_.push_back({unit_restart(unit, KillState::in_flight, clock_.now()), std::nullopt});
  if (refusal_) return note({unit, Duration{0}, refusal_});
  restarter_.restart(unit);
}

void RestartTracker::note(actuators::UnitRestartResult result) {
  if (Requested* requested = under_way(result.unit)) {
    requested->ended = clock_.now();
    requested->progress.state = !result.failure ? KillState::released
                                : result.begun  ? KillState::stuck
                                                : KillState::failed;
  }
  results_.push_back(std::move(result));
}

void RestartTracker::collect() {
  if (requested_.empty()) return;
  for (actuators::UnitRestartResult& each : restarter_.take_results()) note(std::move(each));
  const MonotonicTime now = clock_.now();
  std::erase_if(requested_, [&](const Requested& each) {
    return each.ended ? now - *each.ended >= kForgetAfter
                      : now - each.progress.started >= kLostAfter;
  });
}

std::vector<KillProgress> RestartTracker::progress() {
  collect();
  std::vector<KillProgress> all;
  for (const Requested& each : requested_) all.push_back(each.progress);
  return all;
}

std::vector<actuators::UnitRestartResult> RestartTracker::take_results() {
  collect();
  return std::exchange(results_, {});
}

std::vector<KillProgress> kills_and_restarts(const actuators::Ladder& ladder,
                                             RestartTracker& restarts) {
  auto kills = ladder.progress();
  for (KillProgress& each : restarts.progress()) kills.push_back(std::move(each));
  return kills;
}

}  // namespace forestall::agent
