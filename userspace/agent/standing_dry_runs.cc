// SPDX-License-Identifier: Apache-2.0
#include "agent/standing_dry_runs.h"

#include <algorithm>
#include <utility>

namespace forestall::agent {

StandingDryRuns::DryRun StandingDryRuns::dry_run_of(const Decision& decision,
                                                    const Eviction& eviction) {
  DryRun dry_run{decision.considered[eviction.candidate].sample.workload.cgroup, std::nullopt,
                 eviction.metric_signal, eviction.cause == EvictionCause::ruleset};
  if (eviction.cause == EvictionCause::threshold && decision.driving) {
    const Evidence& driving = decision.evidence[*decision.driving];
    dry_run.crossing = CrossedThreshold{driving.threshold, driving.cgroup};
  }
  return dry_run;
}

bool StandingDryRuns::add(const Decision& decision, const Eviction& eviction) {
  DryRun dry_run = dry_run_of(decision, eviction);
  if (std::ranges::find(all_, dry_run) != all_.end()) return false;
  if (all_.size() == kMax) all_.erase(all_.begin());
  all_.push_back(std::move(dry_run));
  return true;
}

// A ruleset may select its victim again when the ladder no longer lists the kill.
// A threshold's crossing ends when its signal has recovered; the memory that a dry run pretends to
// release does not count. A pod beyond its limit is selected again each time it is measured, unless
// the ladder still lists its kill.
bool StandingDryRuns::is_over(const DryRun& dry_run, const Observation& observation,
                              const Decision& decision) {
  if (dry_run.by_ruleset) {
    return std::ranges::find(observation.kills, dry_run.victim, &KillProgress::cgroup) ==
           observation.kills.end();
  }
  if (!dry_run.crossing) {
    const auto is_victim = [&](const Eviction& each) {
      return decision.considered[each.candidate].sample.workload.cgroup == dry_run.victim;
    };
    return observation.disk_usage_read && std::ranges::none_of(decision.evictions, is_victim) &&
           std::ranges::find(observation.kills, dry_run.victim, &KillProgress::cgroup) ==
               observation.kills.end();
  }
  return std::ranges::none_of(decision.evidence, [&](const Evidence& each) {
    return CrossedThreshold{each.threshold, each.cgroup} == *dry_run.crossing && each.first_met;
  });
}

void StandingDryRuns::evaluated(const Observation& observation, const Decision& decision) {
  std::erase_if(all_, [&](const DryRun& each) { return is_over(each, observation, decision); });
}

void StandingDryRuns::forget_ended(const std::vector<KillProgress>& kills) {
  std::erase_if(all_, [&](const DryRun& each) {
    return std::ranges::any_of(kills, [&](const KillProgress& kill) {
      return kill.cgroup == each.victim && kill.state == KillState::released;
    });
  });
}

}  // namespace forestall::agent
