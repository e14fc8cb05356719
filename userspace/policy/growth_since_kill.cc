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

// Of a candidate whose usage was unknown: whatever it holds later, it is not known to have grown.
constexpr Bytes kUnknown{-1};

const Held* find(const PolicyState::Holdings& before, const Candidate& candidate) {
  const CgroupId cgroup = candidate.sample.workload.cgroup;
  const auto found = std::ranges::lower_bound(*before.held, cgroup, {}, &Held::cgroup);
  return found == before.held->end() || found->cgroup != cgroup ? nullptr : &*found;
}

bool was_unknown(const PolicyState::Holdings& before, const Candidate& candidate) {
  const Held* held = find(before, candidate);
  return held != nullptr && held->working_set == kUnknown;
}

bool is_known(const Candidate& candidate) {
  return candidate.sample.working_set().has_value();
}

Bytes held(const Candidate& candidate) {
  return candidate.sample.working_set().value_or(Bytes{0});
}

// Used at the subject by no candidate that `counts`, all of known usage.
template <typename Counts>
Bytes outside_of(const Evidence& driving, const std::vector<Candidate>& candidates, Counts counts) {
  const Bytes used = subtract(Bytes{driving.capacity}, Bytes{driving.available});
  return subtract(used, held_by(candidates, counts).value_or(Bytes{0}));
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
    all->push_back({each.sample.workload.cgroup, is_known(each) ? held(each) : kUnknown});
  }
  std::ranges::sort(*all, {}, &Held::cgroup);
  return {id, at, outside_of(driving, candidates, is_known), std::move(all)};
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
  const auto compares = [&](const Candidate& each) {
    return is_known(each) && !was_unknown(before, each);
  };
  const Bytes outside = subtract(outside_of(driving, candidates, compares), before.outside);
  const Bytes all = add(sum_of(outermost(candidates, compares)), std::max(outside, Bytes{0}));
  const Bytes offenders = sum_of(outermost(
      candidates, [&](const Candidate& each) { return compares(each) && may_be_blamed(each); }));
  Bytes largest;
  for (const Candidate& each : candidates) {
    if (may_be_blamed(each)) largest = std::max(largest, growth_of(each));
  }
  by_offenders_ = offenders >= subtract(all, offenders);
  enough_ =
      std::max({kMemoryNoise, Bytes{last_resort(driving).count / 4}, Bytes{largest.count / 2}});
}

Bytes GrowthSinceKill::growth_of(const Candidate& candidate) const {
  const Held* before = find(before_, candidate);
  if (before == nullptr) return held(candidate);  // it is new
  if (before->working_set == kUnknown) return Bytes{0};
  return std::max(subtract(held(candidate), before->working_set), Bytes{0});
}

bool GrowthSinceKill::caused_by(const Candidate& candidate) const {
  return by_offenders_ && may_be_blamed(candidate) && growth_of(candidate) >= enough_;
}

}  // namespace forestall::policy
