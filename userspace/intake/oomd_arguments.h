// SPDX-License-Identifier: Apache-2.0
// Plugins of oomd 0.5.0 and their arguments, from the text of a configuration into typed values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "intake/json_members.h"
#include "model/ruleset.h"
#include "text/diagnostic.h"
#include "text/json_tree.h"

namespace forestall::intake {

// A point at which oomd would do something else with the same text.
struct OomdDifference {
  text::Origin place;
  std::string original;
  std::string forestall;
};

// {"name": P, "args": {...}}. Nothing after an error.
[[nodiscard]] std::optional<rulesets::Plugin> read_oomd_plugin(
    const text::JsonNode& node, JsonProblems& problems, std::vector<OomdDifference>& differences);

// The arguments of `node`, of a hook or plugin named `name`: only `cgroup`.
[[nodiscard]] std::optional<rulesets::PrekillHook> read_oomd_hook(const text::JsonNode& node,
                                                                  JsonProblems& problems);

// Names of all plugins.
[[nodiscard]] const std::vector<std::string>& oomd_plugin_names();

}  // namespace forestall::intake
