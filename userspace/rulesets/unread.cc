// SPDX-License-Identifier: Apache-2.0
#include "rulesets/unread.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/needs.h"

namespace forestall::rulesets {
namespace {

struct ItemRow {
  Item item;
  std::string_view name;
  bool (*is_known)(const Cgroup&);
};

// Not listed: whether it has processes, which each version shows; preferences, which most cgroups
// do not have; memory.min and memory.low, which count as 0 where they are absent (cgroup v1). The
// root's usage is that of the host.
constexpr std::array kItemRows{
    ItemRow{Item::usage, "the memory usage",
            [](const Cgroup& c) { return is_root(c) || c.current.has_value(); }},
    ItemRow{Item::swap, "the swap usage",
            [](const Cgroup& c) { return is_root(c) || c.swap_current.has_value(); }},
    ItemRow{Item::stat, "memory.stat", [](const Cgroup& c) { return c.stat.has_value(); }},
    ItemRow{Item::memory_pressure, "memory.pressure",
            [](const Cgroup& c) { return c.memory_pressure.has_value(); }},
    ItemRow{Item::io_pressure, "io.pressure",
            [](const Cgroup& c) { return c.io_pressure.has_value(); }},
    ItemRow{Item::cpu_pressure, "cpu.pressure",
            [](const Cgroup& c) { return c.cpu_pressure.has_value(); }},
    ItemRow{Item::io, "io.stat", [](const Cgroup& c) { return c.io.has_value(); }},
    ItemRow{Item::dying, "the number of dying descendants",
            [](const Cgroup& c) { return c.dying_descendants.has_value(); }},
    ItemRow{Item::high, "memory.high", [](const Cgroup& c) { return c.high.has_value(); }},
    ItemRow{Item::freezer, "cgroup.freeze", [](const Cgroup& c) { return c.frozen.has_value(); }},
    ItemRow{Item::reclaim, "memory.reclaim", [](const Cgroup& c) { return c.has_reclaim; }},
    ItemRow{Item::floor, "memory.min and memory.low",
            [](const Cgroup& c) { return c.min && c.low; }},
};

bool has_scans(const Cgroup& cgroup) {
  return cgroup.stat && cgroup.stat->pgscan;
}

bool has_refaults(const Cgroup& cgroup) {
  return cgroup.stat && cgroup.stat->refaults;
}

// The keys of memory.stat that cgroup v1 does not have.
struct StatKey {
  std::string_view name;
  bool (*is_known)(const Cgroup&);
};
constexpr StatKey kScans{"pgscan of memory.stat", has_scans};
constexpr StatKey kRefaults{"workingset_refault_* of memory.stat", has_refaults};

std::optional<StatKey> stat_key(const PluginArguments& arguments) {
  if (std::holds_alternative<MemoryReclaim>(arguments)) return kScans;
  if (const auto* kill = std::get_if<Kill>(&arguments)) {
    return kill->by == KillBy::pg_scan ? std::optional(kScans) : std::nullopt;
  }
  const auto* rate = std::get_if<RateAbove>(&arguments);
  if (rate == nullptr || rate->of == RateAbove::Of::usage) return std::nullopt;
  return rate->of == RateAbove::Of::scans ? kScans : kRefaults;
}

std::optional<UnreadPlugin> check(const Plugin& plugin, bool is_action,
                                  const RuleObservation& observed) {
  Ruleset alone;
  alone.actions.push_back(plugin);
  for (const RuleNeed& need : needs_of({alone})) {
    UnreadPlugin unread{.plugin = plugin.name, .is_action = is_action, .missing = {}};
    const auto found = matching(need.cgroups, observed);
    // Whether a cgroup exists may be all that is compared.
    if (found.empty() && need.items != Items()) return unread;
    const auto key = stat_key(plugin.arguments);
    const auto has_key = [&](const Cgroup* each) { return key->is_known(*each); };
    if (key && std::ranges::none_of(found, has_key)) unread.missing.push_back(key->name);
    for (const ItemRow& row : kItemRows) {
      const auto known = [&](const Cgroup* each) { return row.is_known(*each); };
      if (found.empty() || !need.items.has(row.item) || (key && row.item == Item::stat)) continue;
      if (std::ranges::none_of(found, known)) {
        unread.missing.push_back(row.name);
      }
    }
    if (!unread.missing.empty()) return unread;
  }
  return std::nullopt;
}

}  // namespace

std::vector<UnreadPlugin> unread_plugins(const Ruleset& ruleset, const RuleObservation& observed) {
  std::vector<UnreadPlugin> all;
  if (observed.incomplete) return all;
  const auto add = [&](const Plugin& plugin, bool is_action) {
    if (auto unread = check(plugin, is_action, observed)) all.push_back(std::move(*unread));
  };
  for (const DetectorGroup& group : ruleset.groups) {
    for (const Plugin& each : group.plugins) add(each, /*is_action=*/false);
  }
  for (const Plugin& each : ruleset.actions) add(each, /*is_action=*/true);
  return all;
}

}  // namespace forestall::rulesets
