// SPDX-License-Identifier: Apache-2.0
// oomd's rulesets as the section `rulesets` of Forestall's configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "intake/oomd_config.h"

namespace forestall::intake {

struct ImportedRulesets {
  std::string yaml;                          // the whole file
  std::vector<std::string> notes;            // what is left out, and why that changes no decision
  std::vector<rulesets::Ruleset> rulesets;   // of `yaml`
  std::vector<rulesets::PrekillHook> hooks;  // the same
};

// The rulesets decide as those of `config` do. What Forestall's rulesets cannot express is an
// error that names ruleset and plugin; `file` is the name in it. Nothing after an error.
[[nodiscard]] std::optional<ImportedRulesets> import_oomd(const std::string& file,
                                                          const OomdConfig& config,
                                                          text::Findings& findings);

}  // namespace forestall::intake
