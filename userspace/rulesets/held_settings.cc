// SPDX-License-Identifier: Apache-2.0
#include "rulesets/held_settings.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

namespace forestall::rulesets {
namespace {

std::optional<RuleSetting::Kind> kind_of(const PluginArguments& arguments) {
  if (std::holds_alternative<Throttle>(arguments)) return RuleSetting::Kind::throttle;
  if (std::holds_alternative<Freeze>(arguments)) return RuleSetting::Kind::freeze;
  return std::nullopt;
}

using ByCgroup = std::map<std::pair<std::uint64_t, RuleSetting::Kind>, std::vector<RuleSetting>>;

void add_held(RuleSetting::Kind kind, const std::map<std::uint64_t, HeldSetting>& held,
              ByCgroup& out) {
  for (const auto& [id, setting] : held) {
    RuleSetting wanted{kind, CgroupId{id}, setting.path, {}, MonotonicTime(setting.until)};
    if (kind == RuleSetting::Kind::throttle) wanted.high = Bytes{setting.written};
    out[{id, kind}].push_back(std::move(wanted));
  }
}

// Without those that end while a lower one, or an equal one, lasts.
void keep_effective(std::vector<RuleSetting>& of_file) {
  std::ranges::sort(of_file, [](const RuleSetting& one, const RuleSetting& other) {
    return one.high != other.high ? one.high < other.high : one.until > other.until;
  });
  auto until = MonotonicTime::min();
  std::erase_if(of_file, [&](const RuleSetting& each) {
    if (each.until <= until) return true;
    until = each.until;
    return false;
  });
}

}  // namespace

std::vector<RuleSetting> held_settings(const std::vector<Ruleset>& rulesets,
                                       const RuleState& state) {
  ByCgroup found;
  for (std::size_t r = 0; r < rulesets.size(); ++r) {
    const auto remembered = state.rulesets.find(r + 1);
    if (remembered == state.rulesets.end()) continue;
    const std::vector<PluginState>& actions = remembered->second.actions;
    for (std::size_t a = 0; a < std::min(rulesets[r].actions.size(), actions.size()); ++a) {
      const auto kind = kind_of(rulesets[r].actions[a].arguments);
      if (kind) add_held(*kind, actions[a].held, found);
    }
  }
  std::vector<RuleSetting> settings;
  for (auto& [key, of_file] : found) {
    keep_effective(of_file);
    settings.insert(settings.end(), of_file.begin(), of_file.end());
  }
  return settings;
}

void forget_held(RuleState& state, const std::function<bool(const HeldSetting&)>& refused) {
  for (auto& [id, ruleset] : state.rulesets) {
    for (PluginState& action : ruleset.actions) {
      std::erase_if(action.held, [&](const auto& entry) { return refused(entry.second); });
    }
  }
}

}  // namespace forestall::rulesets
