// SPDX-License-Identifier: Apache-2.0
// Rulesets and what an evaluation of them did, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/ruleset_json.h"
#include "model/ruleset.h"
#include "rulesets/decision.h"

namespace forestall::cli {

// Lines with a newline each; untrusted names are printable.
enum class RulesetSource : std::uint8_t { oomd, own };
[[nodiscard]] std::string ruleset_text(const rulesets::Ruleset& ruleset,
                                       RulesetSource source = RulesetSource::oomd);
[[nodiscard]] std::string hook_text(const rulesets::PrekillHook& hook);
// When a kill follows its hook.
[[nodiscard]] std::string kills_after_hooks_text(const std::vector<rulesets::Ruleset>& rulesets);
[[nodiscard]] std::string decision_text(const rulesets::RuleDecision& decision,
                                        const ShowPath& shown);

}  // namespace forestall::cli
