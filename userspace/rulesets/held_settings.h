// SPDX-License-Identifier: Apache-2.0
// What the throttles and freezes of rulesets hold after an evaluation.
#pragma once

#include <functional>
#include <vector>

#include "model/rule_setting.h"
#include "model/rule_state.h"
#include "model/ruleset.h"

namespace forestall::rulesets {

// In the order of cgroups and kinds. Of several throttles of a cgroup the lowest memory.high
// applies and then, when its time is over, the next one: they are listed in this order, those of
// equal value once with the latest time. `rulesets` are those that `state` is of.
[[nodiscard]] std::vector<RuleSetting> held_settings(const std::vector<Ruleset>& rulesets,
                                                     const RuleState& state);

// Forgets what `refused` is true for: the next evaluation of a ruleset that fires requests it
// again.
void forget_held(RuleState& state, const std::function<bool(const HeldSetting&)>& refused);

}  // namespace forestall::rulesets
