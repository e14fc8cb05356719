// SPDX-License-Identifier: Apache-2.0
#include "policy/damage_limit.h"

#include <algorithm>
#include <cstddef>

#include "base/parse.h"
#include "model/unit_restart.h"
#include "model/until_oom.h"
#include "model/workload_class.h"
#include "policy/candidate_memory.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// The highest: it explains why no candidate is killed.
constexpr int kHeldBackWeight = 6;

bool was_killed(const KillProgress& kill) {
  return kill.state != KillState::failed && kill.state != KillState::terminating;
}

bool is_at(const KillProgress& kill, const Evidence& driving) {
  return driving.cgroup == CgroupId{} || path_is_within(kill.path, driving.subject) ||
         path_is_within(driving.subject, kill.path);
}

// A victim that is stuck may still free its memory: it is no evidence.
bool fell_short(const KillProgress& kill) {
  return kill.state == KillState::released && kill.expected > kMemoryNoise &&
         kill.freed.count < kill.expected.count / 2;
}

bool may_be_killed(const Candidate& candidate) {
  return candidate.exclusion == Exclusion::none;
}

// What the kernel has left before its OOM killer acts, with memory that is being released.
Bytes left_before_oom(const Evidence& driving, const NodeSample& node) {
  const Bytes pending{driving.pending_release};
  const auto of_node = driving.cgroup == CgroupId{} ? until_oom(node) : std::nullopt;
  return add(of_node.value_or(Bytes{driving.available}), pending);
}

}  // namespace

int weight_of(Reason reason) {
  switch (reason) {
    case Reason::no_data:
    case Reason::no_threshold_met:
    case Reason::workloads_unread:
    case Reason::threshold_met:
    case Reason::local_storage_limit:
    case Reason::in_grace:
    case Reason::disk_usage_unread:
    case Reason::node_reclaim_sufficed:
    case Reason::own_limit_near:
    case Reason::guard_shot:
    case Reason::ruleset:
    case Reason::container_pressure:
    case Reason::pod_runs_again: return 0;
    case Reason::release_pending: return 1;
    case Reason::statistics_not_newer: return 2;
    case Reason::cleanup_pending: return 3;
    case Reason::node_reclaim: return 4;
    case Reason::no_candidates:
    case Reason::all_protected: return 5;
    case Reason::kills_freed_little:
    case Reason::held_by_no_candidate:
    case Reason::candidates_too_small:
    case Reason::within_requests:
    case Reason::kill_limit_reached: return kHeldBackWeight;
  }
  return 0;
}

bool is_held_back(Reason reason) {
  return weight_of(reason) == kHeldBackWeight;
}

bool is_within_request(const RankKey& key) {
  return key.measured && key.request > 0 && !key.exceeds_request;
}

Bytes last_resort(const Evidence& evidence) {
  return Bytes{evidence.limit.bytes().count / 4};
}

Bytes decided_again_at(const Evidence& evidence) {
  const Bytes near = last_resort(evidence);
  const Bytes available{evidence.available};
  return available > near ? near : Bytes{available.count / 2};
}

KillRate::KillRate(const Config& config, const Observation& observation)
    : limit_(config.kill_limit) {
  for (const KillProgress& kill : observation.kills) {
    const bool recent = elapsed(kill.started, observation.at) < limit_.window;
    if (was_killed(kill) && recent) add(workload_class_at(kill.path));
  }
}

bool KillRate::is_reached(WorkloadClass victim) const {
  const auto index = static_cast<std::size_t>(victim);
  return total_ >= limit_.node || of_class_[index] >= limit_.classes[index];
}

void KillRate::add(WorkloadClass killed) {
  ++total_;
  ++of_class_[static_cast<std::size_t>(killed)];
}

std::optional<MonotonicTime> last_kill_at(const Config& config, const Evidence& driving,
                                          const Observation& observation) {
  std::optional<MonotonicTime> last;
  for (const KillProgress& kill : observation.kills) {
    const bool recent = elapsed(kill.started, observation.at) < config.kill_limit.window;
    if (!was_killed(kill) || !recent || !is_at(kill, driving)) continue;
    last = std::max(last.value_or(kill.started), kill.started);
  }
  return last;
}

DamageLimit::DamageLimit(const Config& config, const Evidence& driving,
                         const Observation& observation, const std::vector<Candidate>& candidates,
                         const DamageHistory& history)
    : config_(config), driving_(driving), candidates_(candidates), rate_(config, observation) {
  count_kills(observation, history.series);
  if (!has_usage_line(driving.threshold.signal)) return;
  measure(observation, history.series);
  if (facts_.near_oom && history.holdings != nullptr) {
    growth_.emplace(*history.holdings, driving, candidates);
  }
}

void DamageLimit::ends_at(MonotonicTime time) {
  if (!until_ || time < *until_) until_ = time;
}

void DamageLimit::count_kills(const Observation& observation, const State::Series* series) {
  const Duration window = config_.kill_limit.window;
  for (const KillProgress& kill : observation.kills) {
    if (!was_killed(kill) || elapsed(kill.started, observation.at) >= window) continue;
    ends_at(later(kill.started, window));
    if (!is_at(kill, driving_)) continue;
    ++facts_.kills;
    if (kill.state != KillState::released && kill.state != KillState::stuck) continue;
    if (is_unit_restart(kill)) continue;  // what it freed is unknown
    at_subject_.push_back(&kill);
    facts_.expected = add(facts_.expected, kill.expected);
    facts_.freed = add(facts_.freed, kill.freed);
    if (series != nullptr && kill.started >= series->began) {
      freed_since_ = add(freed_since_, kill.freed);
    }
  }
  if (series != nullptr) ends_at(later(series->began, window));
}

void DamageLimit::measure(const Observation& observation, const State::Series* series) {
  const Threshold& threshold = driving_.threshold;
  Bytes wanted = driving_.limit.bytes();
  if (threshold.min_reclaim) {
    wanted = add(wanted, threshold.min_reclaim->of(driving_.capacity).bytes());
  }
  const Bytes has = add(Bytes{driving_.available}, Bytes{driving_.pending_release});
  facts_.need = std::max(subtract(wanted, has), Bytes{0});
  facts_.killable = held_by(candidates_, may_be_killed);
  facts_.left_behind = held_by(
      candidates_, [](const Candidate& each) { return each.exclusion == Exclusion::empty; });
  if (const auto all = held_by(candidates_, [](const Candidate&) { return true; })) {
    const Bytes used = subtract(Bytes{driving_.capacity}, Bytes{driving_.available});
    facts_.outside = std::max(subtract(used, *all), Bytes{0});
    if (series != nullptr) facts_.outside_growth = subtract(*facts_.outside, series->outside);
  }
  facts_.near_oom = left_before_oom(driving_, observation.node) <= last_resort(driving_);
  all_within_requests_ = std::ranges::all_of(candidates_, [](const Candidate& each) {
    return !may_be_killed(each) || is_within_request(each.key);
  });
}

bool DamageLimit::took_memory(const Candidate& victim) const {
  return growth_ && growth_->caused_by(victim);
}

bool DamageLimit::grew_since_warning(const Candidate& victim) const {
  const auto growth = victim.sample.growth;
  return facts_.near_oom && growth && *growth >= std::max(kMemoryNoise, facts_.need) &&
         !is_within_request(victim.key);
}

bool DamageLimit::last_kill_fell_short() const {
  if (at_subject_.empty()) return false;
  return fell_short(**std::ranges::max_element(at_subject_, {}, &KillProgress::started));
}

bool DamageLimit::outside_took_it() const {
  return facts_.outside_growth && freed_since_ > kMemoryNoise &&
         facts_.outside_growth->count >= freed_since_.count / 2;
}

std::optional<Reason> DamageLimit::by_facts(const Candidate& victim) const {
  const bool took = took_memory(victim);
  if (last_kill_fell_short()) {
    const auto shorts =
        std::ranges::count_if(at_subject_, [](const auto* kill) { return fell_short(*kill); });
    const bool further = facts_.near_oom && shorts == 1;
    if (!further && !took && !grew_since_warning(victim)) return Reason::kills_freed_little;
  }
  if (outside_took_it() && !took) return Reason::held_by_no_candidate;
  if (facts_.near_oom) return std::nullopt;
  if (facts_.kills > 0 && facts_.killable && *facts_.killable < facts_.need) {
    return Reason::candidates_too_small;
  }
  if (all_within_requests_ && outranks_kubelet()) return Reason::within_requests;
  return std::nullopt;
}

std::optional<std::size_t> DamageLimit::first_that(Caused caused) const {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& each = candidates_[i];
    if (may_be_killed(each) && (this->*caused)(each) && !reason(each)) return i;
  }
  return std::nullopt;
}

DamageLimit::Choice DamageLimit::choose(std::size_t first) const {
  const bool series_failed = last_kill_fell_short() || outside_took_it();
  if (series_failed) {
    if (const auto victim = first_that(&DamageLimit::took_memory)) return {victim, std::nullopt};
  }
  const auto held = reason(candidates_[first]);
  if (!held) return {first, std::nullopt};
  for (const Caused caused : {&DamageLimit::took_memory, &DamageLimit::grew_since_warning}) {
    if (const auto victim = first_that(caused)) return {victim, std::nullopt};
  }
  return {std::nullopt, held};
}

bool DamageLimit::outranks_kubelet() const {
  const bool watched = row_of(driving_.threshold.signal).subject == SubjectKind::watched_cgroup;
  return watched || facts_.kills > 0 || facts_.left_behind.value_or(Bytes{0}) > kMemoryNoise;
}

std::optional<Reason> DamageLimit::reason(const Candidate& victim) const {
  if (has_usage_line(driving_.threshold.signal)) {
    if (const auto held = by_facts(victim)) return held;
  }
  if (rate_.is_reached(workload_class_at(victim.sample.workload.path)))
    return Reason::kill_limit_reached;
  return std::nullopt;
}

std::optional<Reason> hold_at_crossing(const Config& config, const Line& line,
                                       const std::vector<KillProgress>& kills, MonotonicTime now,
                                       const std::vector<Candidate>& candidates) {
  const auto first = std::ranges::find_if(candidates, may_be_killed);
  if (first == candidates.end()) return std::nullopt;
  Evidence crossing;
  crossing.threshold.signal = line.signal;
  crossing.subject = line.cgroup == CgroupId{} ? "node" : line.path;
  crossing.cgroup = line.cgroup;
  crossing.capacity = line.capacity.count;
  crossing.available = subtract(line.capacity, line.floor_line).count;
  crossing.limit = binary(crossing.available);
  Observation observation;
  observation.at = now;
  observation.kills = kills;
  return DamageLimit(config, crossing, observation, candidates, {}).reason(*first);
}

}  // namespace forestall::policy
