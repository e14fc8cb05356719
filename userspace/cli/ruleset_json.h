// SPDX-License-Identifier: Apache-2.0
// Rulesets and what an evaluation of them did, as JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "model/ruleset.h"
#include "rulesets/decision.h"
#include "text/json_output.h"

namespace forestall::cli {

// All arguments of a plugin, defaults included, as numbers, booleans and lists.
[[nodiscard]] text::JsonOutput arguments_json(const rulesets::PluginArguments& arguments);
[[nodiscard]] text::JsonOutput ruleset_json(const rulesets::Ruleset& ruleset);
[[nodiscard]] text::JsonOutput hook_json(const rulesets::PrekillHook& hook);
// "/a/*", "/".
[[nodiscard]] std::string pattern_text(const rulesets::CgroupPattern& pattern);
// "memory.stat's bytes": a number, or "10%".
[[nodiscard]] std::string size_text(const rulesets::SizeOrPercent& size);

// The form in which a path is printed.
using ShowPath = std::function<std::string(std::string_view)>;

[[nodiscard]] text::JsonOutput decision_json(const rulesets::RuleDecision& decision,
                                             const ShowPath& shown);

}  // namespace forestall::cli
