// SPDX-License-Identifier: Apache-2.0
// The order in which kill actions take their candidates: preference, then the action's key, both
// descending. A cgroup without its reading comes after those of its preference. Ties end with the
// path.
#pragma once

#include <vector>

#include "rulesets/usage_history.h"

namespace forestall::rulesets {

// `state` is that of the action. Adds what was compared to `report`.
[[nodiscard]] std::vector<const Cgroup*> rank(const Kill& arguments, const PluginState& state,
                                              const RuleObservation& observed,
                                              const UsageHistory& history,
                                              const std::vector<const Cgroup*>& cgroups,
                                              std::vector<RankedCgroup>& report);

}  // namespace forestall::rulesets
