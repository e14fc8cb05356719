// SPDX-License-Identifier: Apache-2.0
// The arguments of each plugin of a DeschedulerPolicy: strict keys, the checks of the descheduler
// with its messages, and its defaults.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "descheduler/policy_reader.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::descheduler {

inline constexpr std::string_view kDefaultEvictor = "DefaultEvictor";

using ConfiguredArgs = std::variant<rebalance::DefaultEvictorArgs, rebalance::PluginArgs>;

// Whether there is such a plugin.
[[nodiscard]] bool is_registered(std::string_view plugin);
[[nodiscard]] bool is_deschedule_plugin(std::string_view plugin);
[[nodiscard]] bool is_balance_plugin(std::string_view plugin);

// Reads `args`, which may be missing. Problems go to `errors`. `classes` resolve a priority
// threshold by name; null: they are not known, and the name is not resolved. `fixed`: also what the
// descheduler refuses, and `compat: fixed` has.
// REQUIRES: is_registered(plugin).
[[nodiscard]] ConfiguredArgs read_plugin_args(std::string_view plugin, const text::YamlNode* args,
                                              text::Position at, PolicyErrors& errors,
                                              const std::vector<rebalance::PriorityClass>* classes,
                                              bool fixed);

}  // namespace forestall::descheduler
