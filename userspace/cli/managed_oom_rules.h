// SPDX-License-Identifier: Apache-2.0
// `forestall rules --managed-oom`: evaluates systemd-oomd's rules on observations from a file.
#pragma once

#include "cli/managed_oom_command.h"
#include "cli/options.h"
#include "cli/rules_options.h"

namespace forestall::cli {

// Returns the exit code (cli/exit_code.h).
int run_managed_oom_rules(const Options& options, const ManagedOomOptions& managed,
                          const RulesOptions& rules);

}  // namespace forestall::cli
