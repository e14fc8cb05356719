// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/exit_code.h"

namespace forestall::cli {

int run_version(const Options& options) {
  if (options.output == OutputFormat::json) {
    fmt::print("{{\"version\": \"{}\"}}\n", FORESTALL_VERSION);
  } else {
    fmt::print("forestall {}\n", FORESTALL_VERSION);
  }
  return kExitOk;
}

}  // namespace forestall::cli
