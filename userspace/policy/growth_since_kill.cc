// SPDX-License-Identifier: Apache-2.0
#include "policy/growth_since_kill.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "policy/candidate_memory.h"
#include "policy/damage_limit.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

using Held = PolicyState::Holdings::Held;

bool is_known(const Candidate& candidate) {
  return candidate.sample.working_set().has_value();
}

Bytes held(const Candidate& candidate) {
  return candidate.sample.working_set().value_or(Bytes{0});
}

// Used at the subject by no candidate of known usage.
Bytes outside_of(const Evidence& driving, const std::vector<Candidate>& candidates) {
  const Bytes used = subtract(Bytes{driving.capacity}, Bytes{driving.available});
  return subtract(used, held_by(candidates, is_known).value_or(Bytes{0}));
}

bool may_be_blamed(const Candidate& candidate) {
  return candidate.exclusion == Exclusion::none && candidate.key.measured &&
         !is_within_request(candidate.key);
}

}  // namespace

PolicyState::Holdings holdings_of(const ThresholdId& id, const Evidence& driving, MonotonicTime at,
                                  const std::vector<Candidate>& candidates) {
  auto all = std::make_shared<std::vector<Held>>();
  for (const Candidate& each : candidates) {
    if (is_known(each)) all->push_back({each.sample.workload.cgroup, held(each)});
  }
  std::ranges::sort(*all, {}, &Held::cgroup);
  return {id, at, outside_of(driving, candidates), std::move(all)};
}

// A share of what is left where the kernel's OOM killer is near, so that a leak shows before its
// end, and above the noise of a working set.
GrowthSinceKill::GrowthSinceKill(const PolicyState::Holdings& before, const Evidence& driving,
                                 const std::vector<Candidate>& candidates)
    : before_(before) {
  const auto sum_of = [&](const std::vector<const Candidate*>& counted) {
    Bytes sum;
    for (const Candidate* each : counted) sum = add(sum, growth_of(*each));
    return sum;
  };
  const Bytes outside = subtract(outside_of(driving, candidates), before.outside);
  const Bytes all = add(sum_of(outermost(candidates, is_known)), std::max(outside, Bytes{0}));
  const Bytes offenders = sum_of(outermost(candidates, may_be_blamed));
  Bytes largest;
  for (const Candidate& each : candidates) {
    if (may_be_blamed(each)) largest = std::max(largest, growth_of(each));
  }
  by_offenders_ = offenders >= subtract(all, offenders);
  enough_ =
      std::max({kMemoryNoise, Bytes{last_resort(driving).count / 4}, Bytes{largest.count / 2}});
}

Bytes GrowthSinceKill::growth_of(const Candidate& candidate) const {
  const CgroupId cgroup = candidate.sample.workload.cgroup;
  const auto found = std::ranges::lower_bound(*before_.held, cgroup, {}, &Held::cgroup);
  const bool is_new = found == before_.held->end() || found->cgroup != cgroup;
  const Bytes then = is_new ? Bytes{0} : found->working_set;
  return std::max(subtract(held(candidate), then), Bytes{0});
}

bool GrowthSinceKill::blames(const Candidate& candidate) const {
  return by_offenders_ && may_be_blamed(candidate) && growth_of(candidate) >= enough_;
}

}  // namespace forestall::policy
