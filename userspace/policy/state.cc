// SPDX-License-Identifier: Apache-2.0
#include "policy/state.h"

namespace forestall::policy {

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
  } else {
    next.rules.reset();
    next.rule_kill.reset();
  }
  return next;
}

}  // namespace forestall::policy
