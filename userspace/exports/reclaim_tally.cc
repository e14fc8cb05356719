// SPDX-License-Identifier: Apache-2.0
#include "exports/reclaim_tally.h"

#include <algorithm>
#include <mutex>

namespace forestall::exports {

void ReclaimTally::add_write(const std::string& ruleset, const std::string& cgroup, Bytes reclaimed,
                             bool has_failed) {
  const std::lock_guard lock(mutex_);
  RulesetReclaimCounts& counts = counts_of(ruleset, cgroup);
  ++counts.writes;
  counts.reclaimed += reclaimed;
  if (has_failed) ++counts.failures;
}

void ReclaimTally::add_back_off(const std::string& ruleset, const std::string& cgroup) {
  const std::lock_guard lock(mutex_);
  ++counts_of(ruleset, cgroup).back_offs;
}

void ReclaimTally::add_dropped(const std::string& ruleset, const std::string& cgroup) {
  const std::lock_guard lock(mutex_);
  ++counts_of(ruleset, cgroup).dropped;
}

std::vector<RulesetReclaimCounts> ReclaimTally::all() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

RulesetReclaimCounts* ReclaimTally::find(const std::string& ruleset, const std::string& cgroup) {
  const auto known = std::ranges::find_if(all_, [&](const RulesetReclaimCounts& each) {
    return each.cgroup == cgroup && each.ruleset == ruleset;
  });
  return known == all_.end() ? nullptr : &*known;
}

RulesetReclaimCounts& ReclaimTally::counts_of(const std::string& ruleset,
                                              const std::string& cgroup) {
  if (RulesetReclaimCounts* known = find(ruleset, cgroup)) return *known;
  if (cgroups_ < kCgroupsMax) {
    ++cgroups_;
    return all_.emplace_back(RulesetReclaimCounts{.ruleset = ruleset, .cgroup = cgroup});
  }
  if (RulesetReclaimCounts* others = find(ruleset, "")) return *others;
  return all_.emplace_back(RulesetReclaimCounts{.ruleset = ruleset, .cgroup = {}});
}

}  // namespace forestall::exports
