// SPDX-License-Identifier: Apache-2.0
// oomd.json of oomd 0.5.0, and its drop-ins. What oomd would ignore is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intake/oomd_arguments.h"
#include "model/ruleset.h"
#include "rulesets/program.h"
#include "text/diagnostic.h"

namespace forestall::intake {

struct OomdConfig {
  std::vector<rulesets::Ruleset> rulesets;
  std::vector<rulesets::PrekillHook> hooks;
  std::vector<OomdDifference> differences;
};

// `file` is the name in findings. Nothing after an error.
[[nodiscard]] std::optional<OomdConfig> parse_oomd_config(const std::string& file,
                                                          std::string_view text,
                                                          text::Findings& findings);

struct OomdDropIn {
  rulesets::DropInFile file;
  std::vector<OomdDifference> differences;
};

// A file of the directory of drop-ins, merged with the rulesets that it names. `name` is the name
// of the file in its directory.
[[nodiscard]] std::optional<OomdDropIn> parse_oomd_drop_in(
    const std::string& file, const std::string& name, std::string_view text,
    const std::vector<rulesets::Ruleset>& base, text::Findings& findings);

}  // namespace forestall::intake
