// SPDX-License-Identifier: Apache-2.0
#include "agent/pending_kills.h"

#include <algorithm>
#include <utility>

namespace forestall::agent {
namespace {

CgroupId victim_of(const Record& record) {
  return record.decision.considered[*record.decision.victim()].sample.workload.cgroup;
}

}  // namespace

std::vector<CgroupId> PendingKills::signal(const Decision& decision) {
  std::vector<CgroupId> begun_now;
  repetitions_.clear();
  if (ladder_.dry_run()) dry_runs_.forget_ended(ladder_.progress());
  for (const Eviction& eviction : decision.evictions) {
    const Duration grace = eviction.at_once ? Duration::zero() : eviction.grace;
    const WorkloadSample& victim = decision.considered[eviction.candidate].sample;
    const bool begun = ladder_.begin(victim, grace);
    // A victim that could not be signalled is listed as failed, and one that had no process left is
    // not listed: neither was killed.
    const auto state = state_of(victim.workload.cgroup);
    if (!begun || !state || *state == KillState::failed) continue;
    if (is_standing_dry_run(decision, eviction)) {
      repetitions_.push_back(victim.workload.cgroup);
      continue;
    }
    ++(ladder_.dry_run() ? counts_.dry_run_kills : counts_.kills);
    begun_now.push_back(victim.workload.cgroup);
  }
  return begun_now;
}

bool PendingKills::repeat(const WorkloadSample& victim) {
  if (!ladder_.repeat(victim)) return false;
  ++counts_.kills;
  return true;
}

bool PendingKills::is_standing_dry_run(const Decision& decision, const Eviction& eviction) {
  if (ladder_.dry_run()) return !dry_runs_.add(decision, eviction);
  dry_runs_.clear();
  return false;
}

bool PendingKills::is_repetition(CgroupId victim) const {
  return std::ranges::find(repetitions_, victim) != repetitions_.end();
}

void PendingKills::evaluated(const Record& record) {
  dry_runs_.evaluated(record.observation, record.decision);
}

std::optional<KillState> PendingKills::state_of(CgroupId cgroup) const {
  const auto kills = ladder_.progress();
  const auto found = std::ranges::find(kills, cgroup, &KillProgress::cgroup);
  return found == kills.end() ? std::nullopt : std::optional(found->state);
}

bool PendingKills::complete(const WorkloadSample& victim, const actuators::Signalled& signalled) {
  const bool afresh = ladder_.complete(victim, signalled);
  if (afresh) ++counts_.kills;
  return afresh;
}

void PendingKills::keep(Record record, bool dry_run) {
  // A victim without a process is not listed.
  if (const auto state = state_of(victim_of(record))) {
    record.begun = BegunKill{dry_run, *state};
  }
  // A victim in its grace period that is selected again has one outcome: that of the last decision.
  forget(victim_of(record));
  writer_.write(record);
  open_.push_back(std::move(record));
}

void PendingKills::collect() {
  for (Outcome& outcome : ladder_.take_outcomes()) {
    const auto record = std::ranges::find(open_, outcome.victim.cgroup, victim_of);
    if (record == open_.end()) continue;
    record->outcome = std::move(outcome);
    writer_.write_again(*record);
    // A stuck kill has a second outcome when its memory comes back after all.
    if (record->outcome->state != KillState::stuck) open_.erase(record);
  }
  drop_forgotten();
}

// After the ladder drops a stuck kill, no second outcome comes.
void PendingKills::drop_forgotten() {
  if (open_.empty()) return;
  const auto listed = ladder_.progress();
  std::erase_if(open_, [&](const Record& record) {
    return record.outcome &&
           std::ranges::find(listed, victim_of(record), &KillProgress::cgroup) == listed.end();
  });
}

void PendingKills::forget(CgroupId cgroup) {
  std::erase_if(open_, [&](const Record& record) { return victim_of(record) == cgroup; });
}

}  // namespace forestall::agent
