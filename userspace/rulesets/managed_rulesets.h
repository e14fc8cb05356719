// SPDX-License-Identifier: Apache-2.0
// systemd-oomd's rules as rulesets of an agent, so that they obey its limits and have its records.
//
// Differences from systemd-oomd (managed_oom.h has its own fold): the root's pressure counts,
// limits of SwapUsedLimit act in whole percents and durations in whole seconds (both rounded to the
// later kill), a pause of 15 s follows only a kill, and a candidate that was not seen before has
// reclaimed nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/ruleset.h"
#include "rulesets/managed_oom.h"

namespace forestall::rulesets {

// The names of these rulesets begin with it, and no other name does.
inline constexpr std::string_view kManagedRulesetPrefix = "ManagedOOM";
inline constexpr std::string_view kManagedSwapRuleset = "ManagedOOMSwap";

// The cgroup as a pattern that matches nothing else. Nothing: the path is not that of a cgroup, or
// has characters that no pattern can name.
[[nodiscard]] std::optional<CgroupPattern> literal_pattern(std::string_view path);

// ManagedOOMSwap first, then each cgroup of ManagedOOMMemoryPressure by path. Paths without a
// pattern are left out.
[[nodiscard]] std::vector<Ruleset> managed_rulesets(const ManagedOomRules& rules,
                                                    const OomdConf& conf);

}  // namespace forestall::rulesets
