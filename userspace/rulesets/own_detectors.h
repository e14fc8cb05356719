// SPDX-License-Identifier: Apache-2.0
// Forestall's own detectors. As with oomd's, a reading that is missing does not fire.
#pragma once

#include "model/rule_observation.h"
#include "model/rule_state.h"
#include "rulesets/decision.h"
#include "rulesets/program.h"

namespace forestall::rulesets {

[[nodiscard]] PluginResult detect(const PressureOver& arguments, const RuleObservation& observed,
                                  PluginState& state);
// Whether it is below now.
[[nodiscard]] bool is_below(const AvailableBelow& arguments, const Host& host);
[[nodiscard]] PluginResult detect(const AvailableBelow& arguments, const RuleObservation& observed,
                                  PluginState& state);
[[nodiscard]] PluginResult detect(const RateAbove& arguments, const RuleObservation& observed,
                                  PluginState& state);

}  // namespace forestall::rulesets
