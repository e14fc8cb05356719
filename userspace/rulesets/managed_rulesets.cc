// SPDX-License-Identifier: Apache-2.0
#include "rulesets/managed_rulesets.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/parse.h"

namespace forestall::rulesets {
namespace {

constexpr std::int64_t kPauseSeconds = 15;
constexpr std::int64_t kReclaimWithinSeconds = 30;
constexpr std::int64_t kLeastSwapPercent = 5;
constexpr std::int64_t kPermyriadOfPercent = 100;
constexpr std::size_t kPathMax = 4095;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string escaped(std::string_view name) {
  std::string literal;
  for (const char c : name) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) literal += '\\';
    literal += c;
  }
  return literal;
}

Kill managed_kill(KillBy by, CgroupPatterns cgroups) {
  Kill kill;
  kill.by = by;
  kill.cgroups = std::move(cgroups);
  kill.recursive = true;
  kill.preference = PreferenceSource::systemd;
  return kill;
}

Ruleset swap_ruleset(CgroupPatterns cgroups, const OomdConf& conf) {
  AvailableBelow memory;
  memory.threshold = {true,
                      100 - (conf.swap_used_limit + kPermyriadOfPercent - 1) / kPermyriadOfPercent};
  AvailableBelow swap = memory;
  swap.swap = true;
  Kill kill = managed_kill(KillBy::swap_usage, std::move(cgroups));
  kill.swap_threshold = {true, kLeastSwapPercent};
  Ruleset ruleset;
  ruleset.name = kManagedSwapRuleset;
  ruleset.post_action_delay = 0;
  ruleset.groups = {{"memory and swap used", {{"available", memory}, {"available", swap}}}};
  ruleset.actions = {{"kill", std::move(kill)}};
  return ruleset;
}

Ruleset pressure_ruleset(const std::string& path, const CgroupPattern& cgroup,
                         const ManagedPressureRule& rule) {
  PressureOver pressure;
  pressure.cgroups = {cgroup};
  pressure.threshold = static_cast<double>(rule.limit_permyriad) / kPermyriadOfPercent;
  pressure.duration = std::chrono::ceil<std::chrono::seconds>(rule.duration).count();
  MemoryReclaim reclaim;
  reclaim.cgroups = {cgroup};
  reclaim.duration = kReclaimWithinSeconds;
  Ruleset ruleset;
  ruleset.name = "ManagedOOMMemoryPressure " + path;
  ruleset.post_action_delay = kPauseSeconds;
  ruleset.groups = {{"memory pressure", {{"pressure", pressure}, {"reclaim", reclaim}}}};
  ruleset.actions = {{"kill", managed_kill(KillBy::pg_scan, {cgroup})}};
  return ruleset;
}

}  // namespace

std::optional<CgroupPattern> literal_pattern(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kPathMax) return std::nullopt;
  if (std::ranges::any_of(path, is_control)) return std::nullopt;
  if (path.find_first_of("{}") != std::string_view::npos) return std::nullopt;
  CgroupPattern pattern;
  path.remove_prefix(1);
  while (!path.empty()) {
    const std::string_view name = next_field(path, '/');
    if (name.empty() || name == "." || name == "..") return std::nullopt;
    pattern.components.push_back(escaped(name));
  }
  return pattern;
}

std::vector<Ruleset> managed_rulesets(const ManagedOomRules& rules, const OomdConf& conf) {
  std::vector<Ruleset> made;
  CgroupPatterns swap;
  for (const std::string& path : rules.swap) {
    if (auto pattern = literal_pattern(path)) swap.push_back(*std::move(pattern));
  }
  if (!swap.empty()) made.push_back(swap_ruleset(std::move(swap), conf));
  for (const auto& [path, rule] : rules.pressure) {
    if (const auto pattern = literal_pattern(path)) {
      made.push_back(pressure_ruleset(path, *pattern, rule));
    }
  }
  return made;
}

}  // namespace forestall::rulesets
