// SPDX-License-Identifier: Apache-2.0
#include "rulesets/needs.h"

#include <utility>

namespace forestall::rulesets {
namespace {

Item pressure_item(PressureResource resource) {
  switch (resource) {
    case PressureResource::memory: break;
    case PressureResource::io: return Item::io_pressure;
    case PressureResource::cpu: return Item::cpu_pressure;
  }
  return Item::memory_pressure;
}

struct NeedOf {
  std::vector<RuleNeed>& needs;

  void add(const CgroupPatterns& cgroups, Items items, bool descend = false) const {
    if (!cgroups.empty()) needs.push_back({cgroups, items, descend});
  }
  void operator()(const PressureOver& each) const {
    add(each.cgroups, pressure_item(each.resource));
  }
  void operator()(const PressureAbove& each) const {
    add(each.cgroups, pressure_item(each.resource));
  }
  void operator()(const MemoryAbove& each) const {
    add(each.cgroups, each.anon ? Item::stat : each.swap ? Item::swap : Item::usage);
  }
  void operator()(const RateAbove& each) const {
    add(each.cgroups, each.of == RateAbove::Of::usage ? Item::usage : Item::stat);
  }
  void operator()(const MemoryReclaim& each) const { add(each.cgroups, Item::stat); }
  void operator()(const DyingDescendants& each) const { add(each.cgroups, Item::dying); }
  void operator()(const Exists& each) const { add(each.cgroups, {}); }
  void operator()(const Kill& each) const {
    Items items = Items(Item::candidate) | Item::usage;  // a record shows the usage of a victim
    if (each.preference == PreferenceSource::oomd) items |= Item::preference;
    if (each.preference == PreferenceSource::systemd) items |= Item::managed_preference;
    switch (each.by) {
      case KillBy::memory_size_or_growth: items |= Item::protection; break;
      case KillBy::swap_usage: items |= Item::swap; break;
      case KillBy::pressure: items |= pressure_item(each.resource); break;
      case KillBy::io_cost: items |= Item::io; break;
      case KillBy::pg_scan: items |= Item::stat; break;
    }
    add(each.cgroups, items, each.recursive);
  }
  void operator()(const ReclaimMemory& each) const {
    add(each.cgroups, Items(Item::usage) | Item::reclaim);
  }
  void operator()(const ProactiveReclaim& each) const {
    add(each.cgroups, Items(Item::usage) | Item::reclaim | Item::memory_pressure | Item::floor);
    add({CgroupPattern{}}, Item::memory_pressure);
  }
  void operator()(const Throttle& each) const {
    add(each.cgroups, Items(Item::usage) | Item::high);
  }
  void operator()(const Freeze& each) const { add(each.cgroups, Item::freezer); }
  template <typename Other>
  void operator()(const Other& /*unused*/) const {}
};

}  // namespace

std::vector<RuleNeed> needs_of(const std::vector<Ruleset>& rulesets) {
  std::vector<RuleNeed> needs;
  const NeedOf need{needs};
  for (const Ruleset& ruleset : rulesets) {
    for (const DetectorGroup& group : ruleset.groups) {
      for (const Plugin& each : group.plugins) std::visit(need, each.arguments);
    }
    for (const Plugin& each : ruleset.actions) std::visit(need, each.arguments);
  }
  return needs;
}

}  // namespace forestall::rulesets
