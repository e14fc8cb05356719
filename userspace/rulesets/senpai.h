// SPDX-License-Identifier: Apache-2.0
// oomd's action `senpai`: reclaims from cgroups while their pressure is low.
#pragma once

#include <vector>

#include "model/rule_observation.h"
#include "model/rule_state.h"
#include "rulesets/decision.h"
#include "rulesets/program.h"

namespace forestall::rulesets {

// Adds what is to be written to `writes`.
PluginResult senpai(const Senpai& arguments, const RuleObservation& observed, PluginState& state,
                    std::vector<RuleWrite>& writes);

}  // namespace forestall::rulesets
