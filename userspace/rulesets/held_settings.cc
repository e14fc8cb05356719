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

using ByCgroup = std::map<std::pair<std::uint64_t, RuleSetting::Kind>, RuleSetting>;

void add_held(RuleSetting::Kind kind, const std::map<std::uint64_t, HeldSetting>& held,
              ByCgroup& out) {
  for (const auto& [id, setting] : held) {
    RuleSetting wanted{kind, CgroupId{id}, setting.path, {}, MonotonicTime(setting.until)};
    if (kind == RuleSetting::Kind::throttle) wanted.high = Bytes{setting.written};
    const auto [known, is_new] = out.try_emplace({id, kind}, wanted);
    if (is_new) continue;
    RuleSetting& other = known->second;
    if (wanted.high == other.high) other.until = std::max(other.until, wanted.until);
    if (wanted.high < other.high) other = wanted;
  }
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
  settings.reserve(found.size());
  for (auto& [key, setting] : found) settings.push_back(std::move(setting));
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
