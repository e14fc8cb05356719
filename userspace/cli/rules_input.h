// SPDX-License-Identifier: Apache-2.0
// Files of rules as the commands read them, and how their mistakes are printed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "intake/oomd_config.h"
#include "text/diagnostic.h"

namespace forestall::cli {

// A file of the directory of drop-ins: its name there, and its text.
struct DropInText {
  std::string name;
  std::string text;
};

// The files of the directory in the order of their names, without those that begin with a dot.
[[nodiscard]] Result<std::vector<DropInText>> read_drop_ins(const std::string& directory);

struct OwnRulesets {
  std::vector<rulesets::Ruleset> rulesets;
  std::vector<rulesets::PrekillHook> hooks;
};

// Those of Forestall's configuration; nothing after an error, or if it has no rulesets.
[[nodiscard]] std::optional<OwnRulesets> load_own_rulesets(const std::string& path,
                                                           text::Findings& findings);

// The configuration of oomd; nothing after an error.
[[nodiscard]] std::optional<intake::OomdConfig> load_oomd_config(const std::string& path,
                                                                 text::Findings& findings);

// The mistakes to standard error; with -o json also {"errors": [..]} to standard output. Returns
// the exit code.
int refuse(const Options& options, const text::Findings& findings);
// A file that cannot be read, as a mistake without a position.
void add_unreadable(const std::string& path, const Error& failure, text::Findings& findings);

}  // namespace forestall::cli
