// SPDX-License-Identifier: Apache-2.0
// oomd's detectors. A reading that is missing does not fire: neither high pressure nor a low number
// of dying cgroups is concluded from it.
#pragma once

#include <cstdint>

#include "model/rule_observation.h"
#include "model/rule_state.h"
#include "rulesets/decision.h"
#include "rulesets/program.h"

namespace forestall::rulesets {

[[nodiscard]] PluginResult detect(const PressureAbove& arguments, const RuleObservation& observed,
                                  PluginState& state);
[[nodiscard]] PluginResult detect(const MemoryAbove& arguments, const RuleObservation& observed,
                                  PluginState& state);
[[nodiscard]] PluginResult detect(const MemoryReclaim& arguments, const RuleObservation& observed,
                                  PluginState& state);
[[nodiscard]] PluginResult detect(const SwapFree& arguments, const RuleObservation& observed);
[[nodiscard]] PluginResult detect(const Exists& arguments, const RuleObservation& observed);
[[nodiscard]] PluginResult detect(const DyingDescendants& arguments,
                                  const RuleObservation& observed);

// Whether `met` has lasted for the duration, in seconds.
[[nodiscard]] bool has_lasted(bool met, std::int64_t duration, std::chrono::nanoseconds now,
                              PluginState& state);
// What a detector returns.
[[nodiscard]] constexpr PluginResult fires(bool condition) {
  return condition ? PluginResult::proceed : PluginResult::stop;
}

}  // namespace forestall::rulesets
