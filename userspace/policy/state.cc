// SPDX-License-Identifier: Apache-2.0
#include "policy/state.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace forestall::policy {
namespace {

// A ruleset that is in both lists, unchanged, keeps its windows of time and its pause: units of
// systemd with ManagedOOM properties come and go, and must not reset those of the others.
void keep_equal_rulesets(const std::vector<rulesets::Ruleset>& before,
                         const std::vector<rulesets::Ruleset>& after, const State& state,
                         State& next) {
  rulesets::RuleState kept = *state.rules;
  kept.rulesets.clear();
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto same = std::ranges::find(before, after[i]);
    if (same == before.end()) continue;
    const auto old_id = static_cast<std::uint64_t>(same - before.begin()) + 1;
    const auto known = state.rules->rulesets.find(old_id);
    if (known == state.rules->rulesets.end()) continue;
    kept.rulesets.emplace(i + 1, known->second);
    if (!state.rule_kill || state.rule_kill->ruleset != old_id) continue;
    next.rule_kill = state.rule_kill;
    next.rule_kill->ruleset = i + 1;
  }
  if (!kept.rulesets.empty()) next.rules = std::move(kept);
}

}  // namespace

State reloaded(const State& before) {
  State state;
  state.conditions = before.conditions;
  return state;
}

bool same_rules(const Config& before, const Config& after) {
  return after.thresholds == before.thresholds && after.filesystems == before.filesystems &&
         after.compat == before.compat && after.cgroup_root == before.cgroup_root;
}

State reconfigured(const Config& before, const Config& after, const State& state) {
  State next = same_rules(before, after) ? state : reloaded(state);
  if (before.rules == after.rules) {
    next.rules = state.rules;
    next.rule_kill = state.rule_kill;
    return next;
  }
  next.rules.reset();
  next.rule_kill.reset();
  if (before.rules && after.rules && state.rules) {
    keep_equal_rulesets(*before.rules, *after.rules, state, next);
  }
  return next;
}

}  // namespace forestall::policy
