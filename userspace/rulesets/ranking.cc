// SPDX-License-Identifier: Apache-2.0
#include "rulesets/ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/managed_oom.h"
#include "rulesets/protection.h"
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {
namespace {

Preference oomd_preference(const Cgroup& cgroup) {
  const auto has = [&cgroup](std::string_view name) { return cgroup.xattr(name) != nullptr; };
  if (has("trusted.oomd_prefer") || has("user.oomd_prefer")) return Preference::prefer;
  if (has("trusted.oomd_avoid") || has("user.oomd_avoid")) return Preference::avoid;
  return Preference::normal;
}

// The owner of a cgroup chooses only among cgroups that were to be judged together with it. By swap
// all cgroups of the host are, as in systemd-oomd.
bool trusts_owner(const Kill& arguments, const Cgroup& cgroup, const RuleObservation& observed) {
  if (cgroup.uid == 0) return true;
  if (arguments.by == KillBy::swap_usage) return false;
  return std::ranges::any_of(matching(arguments.cgroups, observed), [&](const Cgroup* each) {
    return each->uid == cgroup.uid && is_within(cgroup.path, each->path);
  });
}

// Nothing: the cgroup is left out.
std::optional<Preference> preference_of(const Kill& arguments, const Cgroup& cgroup,
                                        const RuleObservation& observed) {
  switch (arguments.preference) {
    case PreferenceSource::none: return Preference::normal;
    case PreferenceSource::oomd: return oomd_preference(cgroup);
    case PreferenceSource::systemd: break;
  }
  const ManagedPreference managed = managed_preference(cgroup);
  if (managed == ManagedPreference::none || !trusts_owner(arguments, cgroup, observed)) {
    return Preference::normal;
  }
  if (managed == ManagedPreference::omit) return std::nullopt;
  return Preference::avoid;
}

using RankValues = decltype(RankedCgroup::key);

struct Entry {
  const Cgroup* cgroup = nullptr;
  RankedCgroup ranked;

  [[nodiscard]] bool before(const Entry& other) const {
    if (ranked.preference != other.ranked.preference) {
      return ranked.preference > other.ranked.preference;
    }
    if (ranked.key.empty() != other.ranked.key.empty()) return other.ranked.key.empty();
    for (std::size_t i = 0; i < std::min(ranked.key.size(), other.ranked.key.size()); ++i) {
      if (ranked.key[i].second != other.ranked.key[i].second) {
        return ranked.key[i].second > other.ranked.key[i].second;
      }
    }
    return cgroup->path < other.cgroup->path;
  }
};

// Values of the whole list of siblings.
struct SizeRule {
  std::int64_t size_threshold = 0;    // bytes
  std::int64_t growing_at_least = 0;  // effective usage
};

SizeRule size_rule(const Kill& arguments, const RuleObservation& observed,
                   const std::vector<const Cgroup*>& cgroups) {
  std::int64_t sum = 0;
  std::vector<std::int64_t> effective;
  for (const Cgroup* each : cgroups) {
    sum += observed.usage(*each).value_or(0);
    effective.push_back(effective_usage(*each, observed).value_or(0));
  }
  SizeRule rule;
  rule.size_threshold = static_cast<std::int64_t>(
      static_cast<double>(sum) * (static_cast<double>(arguments.size_threshold) / 100));
  // Rounded up: of 1 to `count`, because the percentile is below 100.
  const auto count = static_cast<std::int64_t>(effective.size());
  const std::int64_t n = (count * (100 - arguments.growing_size_percentile) + 99) / 100;
  std::sort(effective.begin(), effective.end(), std::greater<>());
  if (n > 0) rule.growing_at_least = effective[static_cast<std::size_t>(std::min(n, count) - 1)];
  return rule;
}

// Swap usage below which a kill by swap leaves a cgroup out; nullopt: another kind of kill.
std::optional<std::int64_t> least_swap(const Kill& arguments, const RuleObservation& observed) {
  if (arguments.by != KillBy::swap_usage) return std::nullopt;
  if (!arguments.swap_threshold.is_percent) return arguments.swap_threshold.value;
  const auto total =
      observed.host.swap_total ? observed.host.swap_total : observed.host.total_swap();
  return total ? percent_of(*total, arguments.swap_threshold.value) : kNoLimit;
}

RankValues size_or_growth(const Kill& arguments, const SizeRule& rule, const Cgroup& cgroup,
                          const RuleObservation& observed, const UsageHistory& history) {
  const auto usage = observed.usage(cgroup);
  const auto effective = effective_usage(cgroup, observed);
  if (!usage || !effective) return {};
  // oomd compares growth as float: what differs only behind that is equal, and effective usage
  // decides.
  const auto ratio = static_cast<float>(history.growth(cgroup).value_or(0));
  const bool grows = ratio >= static_cast<float>(arguments.min_growth_ratio) &&
                     *effective >= rule.growing_at_least;
  const std::int64_t size = *usage >= rule.size_threshold ? *effective : 0;
  return {{"size", size}, {"growth", grows ? double{ratio} : 0.0}, {"usage", *effective}};
}

RankValues mean_pressure(const Kill& arguments, const Cgroup& cgroup) {
  const auto& file = pressure_file(cgroup, arguments.resource);
  if (!file || !file->full) return {};
  const float mean = file->full->avg10 / 2 + file->full->avg60 / 2;
  return {{"pressure", static_cast<std::int64_t>(mean)}};
}

RankValues scanned_pages(const PluginState& state, const Cgroup& cgroup) {
  if (!cgroup.stat || !cgroup.stat->pgscan) return {};
  const auto known = state.pgscan.find(cgroup.id);
  const std::int64_t before = known == state.pgscan.end() ? *cgroup.stat->pgscan : known->second;
  return {{"pgscan", *cgroup.stat->pgscan - before}};
}

// The values that an action compares, for one cgroup after the other.
class RankKeys {
 public:
  RankKeys(const Kill& arguments, const PluginState& state, const RuleObservation& observed,
           const UsageHistory& history, const std::vector<const Cgroup*>& cgroups)
      : arguments_(arguments), state_(state), observed_(observed), history_(history) {
    if (arguments.by == KillBy::memory_size_or_growth) {
      size_rule_ = size_rule(arguments, observed, cgroups);
    }
  }

  // Empty: the cgroup lacks its reading.
  [[nodiscard]] RankValues of(const Cgroup& cgroup) const {
    switch (arguments_.by) {
      case KillBy::memory_size_or_growth:
        return size_or_growth(arguments_, size_rule_, cgroup, observed_, history_);
      case KillBy::swap_usage:
        if (!cgroup.swap_current) return {};
        return {{"swap", *cgroup.swap_current}};
      case KillBy::pressure: return mean_pressure(arguments_, cgroup);
      case KillBy::io_cost: {
        const auto rate = history_.io_cost(cgroup);
        if (!rate) return {};
        return {{"ioCost", *rate}};
      }
      case KillBy::pg_scan: return scans_of(cgroup);
    }
    return {};
  }

 private:
  [[nodiscard]] RankValues scans_of(const Cgroup& cgroup) const {
    RankValues values = scanned_pages(state_, cgroup);
    const auto usage = observed_.usage(cgroup);
    if (arguments_.preference == PreferenceSource::systemd && !values.empty() && usage) {
      values.emplace_back("usage", *usage);
    }
    return values;
  }

  const Kill& arguments_;
  const PluginState& state_;
  const RuleObservation& observed_;
  const UsageHistory& history_;
  SizeRule size_rule_;
};

}  // namespace

std::vector<const Cgroup*> rank(const Kill& arguments, const PluginState& state,
                                const RuleObservation& observed, const UsageHistory& history,
                                const std::vector<const Cgroup*>& cgroups,
                                std::vector<RankedCgroup>& report) {
  const RankKeys keys(arguments, state, observed, history, cgroups);
  const auto swap_at_least = least_swap(arguments, observed);
  std::vector<Entry> entries;
  for (const Cgroup* each : cgroups) {
    if (swap_at_least && each->swap_current.value_or(-1) < *swap_at_least) continue;
    const auto preference = preference_of(arguments, *each, observed);
    if (preference) entries.push_back({each, {each->path, *preference, keys.of(*each)}});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.before(b); });
  std::vector<const Cgroup*> order;
  for (Entry& each : entries) {
    order.push_back(each.cgroup);
    report.push_back(std::move(each.ranked));
  }
  return order;
}

}  // namespace forestall::rulesets
