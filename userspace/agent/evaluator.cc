// SPDX-License-Identifier: Apache-2.0
#include "agent/evaluator.h"

#include <algorithm>
#include <utility>

#include "kernel/memory_kinds.h"
#include "model/unit_restart.h"
#include "policy/conditions.h"
#include "policy/damage_limit.h"
#include "policy/pressure_evictions.h"

namespace forestall::agent {
namespace {

// Workloads that were read this long ago are read again as far as their usage moved: the inactive
// file pages of one that stands still are those of the last reading, as in a list of next victims.
constexpr Duration kReadLately = std::chrono::seconds(1);

// Whether candidates may be ranked for memory, the one ranking that uses the kernel's points.
bool may_rank_by_memory(const Decision& decision) {
  return std::ranges::any_of(decision.evidence, [](const Evidence& evidence) {
    return evidence.requires_eviction() && evidence.driving &&
           has_usage_line(evidence.threshold.signal);
  });
}

}  // namespace

Record Evaluator::evaluate(const Wake& wake, MonotonicTime began) {
  policy::keep_pressure(std::exchange(pressure_of_kill_, {}), state_.conditions);
  Record record;
  if (!evaluate_prepared(wake, record)) evaluate_everything(wake, began, record);
  return record;
}

std::vector<KillProgress> Evaluator::kills() const {
  return kills_and_restarts(parts_.ladder, parts_.restarts);
}

// `read_more` adds what the decision requests; false: there is nothing to add.
template <class ReadMore>
policy::Step Evaluator::run_policy(Observation& observation, ReadMore read_more) const {
  const exports::LoopWorkScope ranks(parts_.work, exports::LoopWork::rank);
  auto answer = policy::step(parts_.config, state_, observation);
  while (read_more(answer.decision)) {
    answer = policy::step(parts_.config, state_, observation);
  }
  return answer;
}

// False: the list does not answer for the decision, and `record` is as it was. The state stays as
// it was in either case: the policy got a part of the node only, and the evaluation that follows
// the kill reads all of it. By then the memory may be free again, so the pressure is kept.
bool Evaluator::evaluate_prepared(const Wake& wake, Record& record) {
  const VictimCache& victim_cache = parts_.victim_cache;
  const MonotonicTime now = parts_.clock.now();
  if (!victim_cache.ready(now)) return false;
  const bool complete = parts_.tree.has_all_workloads(now);
  if (!complete && !parts_.tree.is_recent(now)) return false;
  const auto watched = victim_cache.watched();
  const CgroupId crossed = wake.cgroup.value_or(CgroupId{});
  if (wake.usage && std::ranges::find(watched, crossed) == watched.end()) return false;
  // Pending releases are read before usage. Memory that a victim returns between the two reads then
  // counts twice, for this one evaluation; in the other order it would not count at all, and
  // another workload would be killed for it.
  auto kills = this->kills();
  // A further kill is decided on all that a subject holds (policy/damage_limit.h).
  if (std::ranges::any_of(kills, [&](const KillProgress& kill) {
        return now - kill.started < parts_.config.kill_limit.window;
      })) {
    return false;
  }
  Observation observation;
  {
    const exports::LoopWorkScope reads(parts_.work, exports::LoopWork::observe);
    observation = parts_.observer.sample_subjects(wake, now, watched);
  }
  observation.kills = std::move(kills);
  MonotonicTime observed;
  bool inspected = false;
  auto answer = run_policy(observation, [&](const Decision& decision) {
    if (inspected || decision.action != Action::inspect) return false;
    const exports::LoopWorkScope reads(parts_.work, exports::LoopWork::candidates);
    victim_cache.offer(observation);
    parts_.observer.resample_workloads(observation);
    parts_.growth.apply(*observation.workloads);
    observed = parts_.clock.now();
    return inspected = true;
  });
  if (!inspected || answer.decision.action != Action::kill) return false;
  if (!victim_cache.covers(answer.decision)) return false;
  if (!complete && !parts_.tree.allows(answer.decision)) return false;
  for (ConditionStatus& status : answer.decision.conditions) status.changed = false;
  pressure_of_kill_ = answer.state.conditions;
  record.stages.observed = observed;
  record.prepared = victim_cache.prepared(now);
  record.observation = std::move(observation);
  record.decision = std::move(answer.decision);
  return true;
}

void Evaluator::evaluate_everything(const Wake& wake, MonotonicTime began, Record& record) {
  auto kills = this->kills();  // before the node: see evaluate_prepared()
  Observation& observation = record.observation;
  {
    const exports::LoopWorkScope reads(parts_.work, exports::LoopWork::observe);
    observation = parts_.observer.sample_node(wake, parts_.clock.now());
  }
  observation.kills = std::move(kills);
  observation.reclaim = parts_.reclaim.state(parts_.config, state_);
  observation.rules = parts_.rules.use();
  observation.pressed = parts_.pressure.take_evictions();
  if (observation.rules) observation.hooks = parts_.hooks.progress();
  auto answer = decide(began, observation);
  const bool is_kill = answer.decision.action == Action::kill;
  if (!complete_ && !(is_kill && parts_.tree.allows(answer.decision))) {
    parts_.tree.refresh();
    observation.workloads.reset();
    answer = decide(began, observation);
  }
  record.stages.observed = parts_.clock.now();
  parts_.pressure.note_evaluation(
      observation.kills, policy::pressure_refusals(parts_.config, observation, answer.decision));
  before_ = std::exchange(state_, std::move(answer.state));
  parts_.reclaim.observed();
  record.decision = std::move(answer.decision);
  if (policy::is_held_back(record.decision.reason)) add_kinds(record);
}

policy::Step Evaluator::decide(MonotonicTime began, Observation& observation) {
  complete_ = true;
  bool inspected = false;
  bool named = false;
  return run_policy(observation, [&](const Decision& decision) {
    if (!std::exchange(inspected, true) && add_workloads(decision, began, observation)) return true;
    if (std::exchange(named, true)) return false;
    if (decision.reason == Reason::disk_usage_unread) {
      parts_.observer.request_disk_usage(parts_.clock.now(), Duration::zero());
      return false;
    }
    return add_containers(decision, observation);
  });
}

// Names the memory that no kill would free.
void Evaluator::add_kinds(Record& record) const {
  const Evidence& driving = record.decision.evidence[*record.decision.driving];
  if (driving.cgroup == CgroupId{}) {
    record.observation.kinds = kernel::node_memory_kinds().optional();
  } else if (const auto cgroup = parts_.cgroups.open(driving.subject)) {
    record.observation.kinds = parts_.observer.memory_kinds(*cgroup, record.observation.notes);
  }
}

bool Evaluator::add_workloads(const Decision& decision, MonotonicTime began,
                              Observation& observation) {
  note_disk_shortage(decision, observation.at);
  // What the pods occupy on disk is measured on its own schedule, and used when it is there.
  const bool measured = observation.wake.source == WakeSource::disk_usage;
  if (!measured && decision.action != Action::inspect) return false;
  const bool after_kill = std::ranges::any_of(observation.kills, [](const KillProgress& kill) {
    return kill.state == KillState::in_flight && !is_unit_restart(kill);
  });
  const exports::LoopWorkScope reads(
      parts_.work, after_kill ? exports::LoopWork::after_kill : exports::LoopWork::candidates);
  complete_ = parts_.tree.refresh_before_kill(may_rank_by_memory(decision));
  const auto subject = measured ? std::string_view() : policy::inspection_subject(decision);
  read_workloads(subject, {may_rank_by_memory(decision), began}, observation);
  parts_.growth.apply(*observation.workloads);
  if (measured || disk_short_since_) {
    parts_.observer.add_statistics(observation, disk_short_since_);
  }
  return true;
}

std::optional<Evaluator::RecentWorkloads> Evaluator::take_recent_reading(
    std::string_view subject, const Observation& observation) {
  // A workload at its own limit replaces its page cache while its usage stands still. So the first
  // kill is decided on memory.stat as it is: the list did not answer, or it would have been used.
  const MonotonicTime lately = parts_.clock.now() - kReadLately;
  if (std::ranges::none_of(observation.kills, [&](const KillProgress& kill) {
        return !is_unit_restart(kill) &&
               (kill.state == KillState::in_flight || kill.started > lately);
      })) {
    return std::nullopt;
  }
  // Points are of all processes of the node, and are counted anew.
  if (parts_.config.ranking == Ranking::kernel) return std::nullopt;
  // A rescan may have changed what is known of a workload, such as its protection.
  const MonotonicTime since = std::max(lately, parts_.tree.refreshed_at());
  const std::uint64_t changes = parts_.observer.workload_changes();
  const bool usable = reading_ && reading_->at > since && reading_->subject == subject &&
                      reading_->changes == changes && !reading_->workloads.empty();
  if (usable) return std::exchange(reading_, std::nullopt);
  const VictimCache& listed = parts_.victim_cache;
  if (listed.samples_of(subject) == nullptr || listed.sampled_at() <= since) return std::nullopt;
  return RecentWorkloads{listed.sampled_at(), std::string(subject), changes,
                         *listed.samples_of(subject)};
}

void Evaluator::read_workloads(std::string_view subject, sources::Scoring scoring,
                               Observation& observation) {
  auto reading = take_recent_reading(subject, observation);
  if (reading) {
    observation.workloads = std::exchange(reading->workloads, {});
    parts_.observer.resample_workloads(observation);
  } else {
    reading = RecentWorkloads{parts_.clock.now(), std::string(subject), 0, {}};
    parts_.observer.add_workloads(observation, subject, scoring);
    reading->changes = parts_.observer.workload_changes();
  }
  reading_ = std::move(reading);
}

void Evaluator::keep_workloads(const Record& record) {
  if (!reading_ || !record.observation.workloads || record.prepared) return;
  reading_->workloads = *record.observation.workloads;
  for (WorkloadSample& sample : reading_->workloads) sample.statistics.reset();
}

// A walk over the disks that began before the shortage does not show which pod caused it.
void Evaluator::note_disk_shortage(const Decision& decision, MonotonicTime at) {
  const bool is_short = std::ranges::any_of(decision.evidence, [](const Evidence& evidence) {
    return evidence.met && filesystem_of(evidence.threshold.signal);
  });
  if (!is_short) {
    disk_short_since_.reset();
  } else if (!disk_short_since_) {
    disk_short_since_ = at;
  }
}

// A victim with a grace period leaves time to read which of its containers used how much, for the
// message. False when there is none.
bool Evaluator::add_containers(const Decision& decision, Observation& observation) {
  if (decision.evictions.size() != 1 || decision.evictions.front().at_once) return false;
  const CgroupId victim = decision.considered[*decision.victim()].sample.workload.cgroup;
  const auto sample =
      std::ranges::find(*observation.workloads, victim,
                        [](const WorkloadSample& each) { return each.workload.cgroup; });
  if (sample == observation.workloads->end()) return false;
  // Without statistics it ranks first for a disk, and no longer would with its containers named.
  const bool on_disk =
      !decision.driving || filesystem_of(decision.evidence[*decision.driving].threshold.signal);
  if (on_disk && !sample->statistics) return false;
  parts_.observer.add_container_samples(*sample);
  return true;
}

std::optional<std::vector<WorkloadSample>> Evaluator::sample_workloads() {
  const exports::LoopWorkScope reads(parts_.work, exports::LoopWork::sample);
  Observation read;
  parts_.observer.add_workloads(read, {}, sources::kUnscored);
  if (read.workloads) parts_.growth.apply(*read.workloads);
  return std::move(read.workloads);
}

void Evaluator::reconfigure(const Config& next) {
  state_ = policy::reconfigured(parts_.config, next, state_);
}

}  // namespace forestall::agent
