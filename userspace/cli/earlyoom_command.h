// SPDX-License-Identifier: Apache-2.0
// `forestall earlyoom`.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "intake/earlyoom_options.h"

namespace forestall::cli {

struct EarlyoomCommand {
  std::string compat = "1.9";
  std::string meminfo;
  std::string processes;
  bool version = false;                    // -v: print it and exit
  std::vector<intake::GivenOption> given;  // earlyoom's own options, in their order
};

// Returns the exit code (cli/exit_code.h).
int run_earlyoom(const Options& options, const EarlyoomCommand& command);

}  // namespace forestall::cli
