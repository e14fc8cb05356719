// SPDX-License-Identifier: Apache-2.0
#include "replay/rule_coverage.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/parse.h"
#include "rulesets/cgroup_pattern.h"

namespace forestall::replay {
namespace {

using rulesets::CgroupPattern;
using rulesets::Item;
using rulesets::RuleNeed;

constexpr std::uint32_t kItemBits = 16;  // as many as Item has

// Whether what was read for `read` has the cgroups of `pattern`, and with `descend` those below.
bool has_cgroups(const CgroupPattern& pattern, bool descend, const RuleNeed& read) {
  if (descend && !read.descend) return false;
  if (std::ranges::find(read.cgroups, pattern) != read.cgroups.end()) return true;
  const auto path = rulesets::literal_path(pattern);
  if (!path) return false;
  std::vector<std::string> names;
  for (std::string_view rest = *path; !rest.empty();) {
    const std::string_view name = next_field(rest, '/');
    if (!name.empty()) names.emplace_back(name);
  }
  return std::ranges::any_of(read.cgroups, [&](const CgroupPattern& each) {
    const std::size_t depth = each.components.size();
    if (depth > names.size() || (depth < names.size() && !read.descend)) return false;
    return std::equal(each.components.begin(), each.components.end(), names.begin(),
                      rulesets::component_matches);
  });
}

bool has_items(rulesets::Items items, rulesets::Items needed) {
  for (std::uint32_t bit = 0; bit < kItemBits; ++bit) {
    const auto item = static_cast<Item>(1U << bit);
    if (needed.has(item) && !items.has(item)) return false;
  }
  return true;
}

// The kernel updates averages every two seconds, and the agent reads gates before the rest.
constexpr std::chrono::seconds kUpdate{2};

bool is_above(const rulesets::RuleGate& gate, const rulesets::RuleObservation& observation) {
  const auto* pressure = std::get_if<rulesets::PressureGate>(&gate);
  if (pressure == nullptr) {
    return rulesets::is_open(std::get<rulesets::AvailableGate>(gate), observation.host);
  }
  return std::ranges::any_of(pressure->cgroups, [&](const std::string& path) {
    const rulesets::Cgroup* cgroup = observation.find(path);
    if (cgroup == nullptr) return false;
    const auto& file = rulesets::pressure_file(*cgroup, pressure->resource);
    return file && rulesets::is_open(*pressure, rulesets::average_of(*pressure, *file));
  });
}

}  // namespace

bool covers(const std::vector<RuleNeed>& read, const RuleNeed& need) {
  return std::ranges::all_of(need.cgroups, [&](const CgroupPattern& pattern) {
    bool is_read = false;
    rulesets::Items items;
    for (const RuleNeed& each : read) {
      if (!has_cgroups(pattern, need.descend, each)) continue;
      is_read = true;
      items |= each.items;
    }
    return is_read && has_items(items, need.items);
  });
}

std::vector<RuleCoverage::Reading> RuleCoverage::readings_of(const Rulesets& rulesets) {
  std::vector<Reading> readings;
  if (!rulesets) return readings;
  rulesets::ReadingPlan plan = rulesets::reading_plan(*rulesets);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Reading& reading = readings.emplace_back();
    reading.ruleset = &(*rulesets)[i];
    reading.plan = std::move(plan[i]);
  }
  return readings;
}

void RuleCoverage::use(const Rulesets& recorded, const Rulesets& replayed) {
  recorded_rules_ = recorded;
  replayed_rules_ = replayed;
  recorded_ = readings_of(recorded_rules_);
  replayed_ = readings_of(replayed_rules_);
}

const RuleCoverage::Reading* RuleCoverage::recorded(const std::string& name) const {
  const auto found = std::ranges::find_if(
      recorded_, [&](const Reading& each) { return each.ruleset->name == name; });
  return found != recorded_.end() ? &*found : nullptr;
}

// A recording does not show whether a ruleset was read in part. Two open gates in a row do: the
// second reading at least was complete.
std::vector<RuleNeed> RuleCoverage::read_at(const rulesets::RuleObservation& observation) {
  std::vector<RuleNeed> read;
  for (Reading& each : recorded_) {
    if (observation.is_deferred(each.ruleset->name)) continue;
    const bool above = std::ranges::any_of(each.plan.gates, [&](const rulesets::RuleGate& gate) {
      return is_above(gate, observation);
    });
    if (std::exchange(each.was_above, above) && above) {
      each.whole_until = observation.time + each.plan.kept - kUpdate;
    }
    const bool is_whole = each.plan.always.empty() || observation.time < each.whole_until;
    const std::vector<RuleNeed>& needs = is_whole ? each.plan.needs : each.plan.always;
    read.insert(read.end(), needs.begin(), needs.end());
  }
  return read;
}

// A ruleset without cgroups decides on the host alone.
RuleCoverage::Verdict RuleCoverage::verdict(const Reading& reading,
                                            const rulesets::RuleObservation& observation,
                                            const std::vector<RuleNeed>& read) const {
  const Reading* same = recorded(reading.ruleset->name);
  if (same != nullptr && *same->ruleset == *reading.ruleset) {
    return observation.is_deferred(reading.ruleset->name) ? Verdict::deferred : Verdict::decided;
  }
  const std::vector<RuleNeed>& needs = reading.plan.needs;
  if (needs.empty()) {
    return observation.host.mem_total ? Verdict::decided : Verdict::missing;
  }
  const bool all =
      std::ranges::all_of(needs, [&](const RuleNeed& each) { return covers(read, each); });
  return all ? Verdict::decided : Verdict::missing;
}

void RuleCoverage::take(MonotonicTime at, SharedValue<rulesets::RuleObservation>& observation) {
  if (!observation) {
    if (recorded_rules_) return;  // nothing was read for this evaluation
    for (const Reading& each : replayed_) note_missing(at, each.ruleset->name);
    return;
  }
  const std::vector<RuleNeed> read = read_at(*observation);
  std::vector<Verdict> verdicts;
  std::set<std::string> deferred;  // an observation names rulesets, which may share a name
  for (const Reading& each : replayed_) {
    verdicts.push_back(verdict(each, *observation, read));
    if (verdicts.back() != Verdict::decided) deferred.insert(each.ruleset->name);
  }
  for (std::size_t i = 0; i < replayed_.size(); ++i) {
    const std::string& name = replayed_[i].ruleset->name;
    const bool is_decided = verdicts[i] == Verdict::decided && !deferred.contains(name);
    if (is_decided || verdicts[i] == Verdict::deferred) {
      note_decided(at, name);
    } else {
      note_missing(at, name);
    }
  }
  std::vector<std::string> names(deferred.begin(), deferred.end());
  if (names == observation->deferred) return;
  rulesets::RuleObservation changed = *observation;
  changed.deferred = std::move(names);
  observation = std::move(changed);
}

void RuleCoverage::note_missing(MonotonicTime at, const std::string& ruleset) {
  Missing& missing = missing_[ruleset];
  ++missing.readings;
  if (!missing.since) missing.since = at;
}

void RuleCoverage::note_decided(MonotonicTime at, const std::string& ruleset) {
  const auto known = missing_.find(ruleset);
  if (known == missing_.end() || !known->second.since) return;
  known->second.time += at - *std::exchange(known->second.since, std::nullopt);
}

void RuleCoverage::finish(MonotonicTime at) {
  for (auto& [name, missing] : missing_) {
    if (missing.since) missing.time += at - *std::exchange(missing.since, std::nullopt);
  }
}

}  // namespace forestall::replay
