// SPDX-License-Identifier: Apache-2.0
// The subcommands for rules of other programs.
#pragma once

#include "cli/options.h"
#include "cli/rules_options.h"

namespace forestall::cli {

// Evaluates rulesets on observations from a file.
int run_rules(const Options& options, const RulesOptions& rules);

// Prints the rulesets of an oomd.json as Forestall's configuration.
int run_import_oomd(const Options& options, const ImportOomdOptions& given);

// Whether check-config checks rules of other programs, not Forestall's configuration.
[[nodiscard]] bool checks_rules(const CheckConfigOptions& check);
// REQUIRES: checks_rules(). Prints the rules in words or as JSON, and the points at which the
// original differs.
int run_check_rules(const Options& options, const CheckConfigOptions& check);

}  // namespace forestall::cli
