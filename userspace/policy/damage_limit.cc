// SPDX-License-Identifier: Apache-2.0
#include "policy/damage_limit.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/parse.h"
#include "model/workload_class.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// Less than this is accounting noise (policy/rank.h kGrowthNoiseMin).
constexpr Bytes kNoise = mib(1);

bool was_killed(const KillProgress& kill) {
  return kill.state != KillState::failed && kill.state != KillState::terminating;
}

bool is_at(const KillProgress& kill, const Evidence& driving) {
  return driving.cgroup == CgroupId{} || path_is_within(kill.path, driving.subject) ||
         path_is_within(driving.subject, kill.path);
}

// A victim that is stuck may still free its memory: it is no evidence.
bool fell_short(const KillProgress& kill) {
  return kill.state == KillState::released && kill.expected > kNoise &&
         kill.freed.count < kill.expected.count / 2;
}

// '/' sorts first, so that the descendants of a path follow it directly.
bool path_before(std::string_view a, std::string_view b) {
  const auto order = [](char c) { return c == '/' ? '\0' : c; };
  return std::ranges::lexicographical_compare(a, b, {}, order, order);
}

// The working sets of the candidates for which `counts` is true, each byte once; nullopt: one of
// them is unknown.
template <typename Counts>
std::optional<Bytes> held_by(const std::vector<Candidate>& candidates, Counts counts) {
  std::vector<const WorkloadSample*> samples;
  for (const Candidate& candidate : candidates) {
    if (counts(candidate)) samples.push_back(&candidate.sample);
  }
  std::ranges::sort(samples, [](const WorkloadSample* a, const WorkloadSample* b) {
    return path_before(a->workload.path, b->workload.path);
  });
  Bytes sum;
  std::string_view outermost;
  for (const WorkloadSample* sample : samples) {
    const std::string_view path = sample->workload.path;
    if (!outermost.empty() && path_is_within(path, outermost)) continue;
    outermost = path;
    const auto held = sample->working_set();
    if (!held) return std::nullopt;
    sum = add(sum, *held);
  }
  return sum;
}

bool may_be_killed(const Candidate& candidate) {
  return candidate.exclusion == Exclusion::none;
}

// What the kernel has left before its OOM killer acts, with memory that is being released.
Bytes left_before_oom(const Evidence& driving, const NodeSample& node) {
  const Bytes pending{driving.pending_release};
  const bool of_node = driving.cgroup == CgroupId{} && node.kernel_available;
  if (!of_node) return add(Bytes{driving.available}, pending);
  return add(add(*node.kernel_available, node.swap_free.value_or(Bytes{0})), pending);
}

}  // namespace

bool is_held_back(Reason reason) {
  switch (reason) {
    case Reason::kills_freed_little:
    case Reason::held_by_no_candidate:
    case Reason::candidates_too_small:
    case Reason::within_requests:
    case Reason::kill_limit_reached: return true;
    default: return false;
  }
}

bool is_within_request(const RankKey& key) {
  return key.measured && key.request > 0 && !key.exceeds_request;
}

Bytes last_resort(const Evidence& evidence) {
  return Bytes{evidence.limit.bytes().count / 4};
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

DamageLimit::DamageLimit(const Config& config, const Evidence& driving,
                         const Observation& observation, const std::vector<Candidate>& candidates,
                         const State::Series* series)
    : config_(config), driving_(driving), rate_(config, observation) {
  count_kills(observation, series);
  if (has_usage_line(driving.threshold.signal)) measure(observation, candidates, series);
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
    at_subject_.push_back(&kill);
    facts_.expected = add(facts_.expected, kill.expected);
    facts_.freed = add(facts_.freed, kill.freed);
    if (series != nullptr && kill.started >= series->began) {
      freed_since_ = add(freed_since_, kill.freed);
    }
  }
  if (series != nullptr) ends_at(later(series->began, window));
}

void DamageLimit::measure(const Observation& observation, const std::vector<Candidate>& candidates,
                          const State::Series* series) {
  const Threshold& threshold = driving_.threshold;
  Bytes wanted = driving_.limit.bytes();
  if (threshold.min_reclaim) {
    wanted = add(wanted, threshold.min_reclaim->of(driving_.capacity).bytes());
  }
  const Bytes has = add(Bytes{driving_.available}, Bytes{driving_.pending_release});
  facts_.need = std::max(subtract(wanted, has), Bytes{0});
  facts_.killable = held_by(candidates, may_be_killed);
  facts_.left_behind =
      held_by(candidates, [](const Candidate& each) { return each.exclusion == Exclusion::empty; });
  if (const auto all = held_by(candidates, [](const Candidate&) { return true; })) {
    const Bytes used = subtract(Bytes{driving_.capacity}, Bytes{driving_.available});
    facts_.outside = std::max(subtract(used, *all), Bytes{0});
    if (series != nullptr) facts_.outside_growth = subtract(*facts_.outside, series->outside);
  }
  facts_.near_oom = left_before_oom(driving_, observation.node) <= last_resort(driving_);
  all_within_requests_ = std::ranges::all_of(candidates, [](const Candidate& each) {
    return !may_be_killed(each) || is_within_request(each.key);
  });
}

bool DamageLimit::caused_shortage(const Candidate& victim) const {
  const auto growth = victim.sample.growth;
  return growth && *growth >= std::max(kNoise, facts_.need) && !is_within_request(victim.key);
}

std::optional<Reason> DamageLimit::by_facts(const Candidate& victim) const {
  if (!at_subject_.empty()) {
    const auto* last = *std::ranges::max_element(at_subject_, {}, &KillProgress::started);
    const auto shorts =
        std::ranges::count_if(at_subject_, [](const auto* kill) { return fell_short(*kill); });
    const bool further = facts_.near_oom && (shorts == 1 || caused_shortage(victim));
    if (fell_short(*last) && !further) return Reason::kills_freed_little;
  }
  if (facts_.outside_growth && freed_since_ > kNoise &&
      facts_.outside_growth->count >= freed_since_.count / 2) {
    return Reason::held_by_no_candidate;
  }
  if (facts_.near_oom) return std::nullopt;
  if (facts_.kills > 0 && facts_.killable && *facts_.killable < facts_.need) {
    return Reason::candidates_too_small;
  }
  if (all_within_requests_ && outranks_kubelet()) return Reason::within_requests;
  return std::nullopt;
}

bool DamageLimit::outranks_kubelet() const {
  const bool watched = row_of(driving_.threshold.signal).subject == SubjectKind::watched_cgroup;
  return watched || facts_.kills > 0 || facts_.left_behind.value_or(Bytes{0}) > kNoise;
}

std::optional<Reason> DamageLimit::reason(const Candidate& victim) const {
  if (has_usage_line(driving_.threshold.signal)) {
    if (const auto held = by_facts(victim)) return held;
  }
  if (rate_.is_reached(workload_class_at(victim.sample.workload.path)))
    return Reason::kill_limit_reached;
  return std::nullopt;
}

}  // namespace forestall::policy
