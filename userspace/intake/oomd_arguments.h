// SPDX-License-Identifier: Apache-2.0
// Plugins of oomd 0.5.0 and their arguments, from the text of a configuration into typed values.
//
// oomd turns every argument into text and parses its beginning. A value with more text than oomd
// would use is refused here, and the message has oomd's reading.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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

// A whole number of 32 bits: blanks, a sign, digits. The error has oomd's reading, if it has one.
[[nodiscard]] Result<std::int64_t> parse_oomd_int(std::string_view text);
// The grammar of sizes: "10%", "100" (MiB), "1.5G", "1G 512M"; a number with a fraction and without
// a unit is bytes.
[[nodiscard]] Result<rulesets::SizeOrPercent> parse_oomd_size(std::string_view text);
// The text that oomd makes of a value; nothing for lists, objects and null.
[[nodiscard]] std::optional<std::string> oomd_text(const text::JsonNode& node);

// {"name": P, "args": {...}}. Nothing after an error.
[[nodiscard]] std::optional<rulesets::Plugin> read_oomd_plugin(
    const text::JsonNode& node, JsonProblems& problems, std::vector<OomdDifference>& differences);

// The arguments of `node`, of a hook or plugin named `name`: only `cgroup`.
[[nodiscard]] std::optional<rulesets::PrekillHook> read_oomd_hook(const text::JsonNode& node,
                                                                  JsonProblems& problems);

// Names of all plugins.
[[nodiscard]] const std::vector<std::string>& oomd_plugin_names();

}  // namespace forestall::intake
