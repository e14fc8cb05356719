// SPDX-License-Identifier: Apache-2.0
// `forestall earlyoom`.
#pragma once

#include <string>
#include <vector>

#include "intake/earlyoom_options.h"

namespace forestall::cli {

struct EarlyoomCommand {
  std::string compat = "1.9";
  std::string meminfo;
  std::string processes;
  bool version = false;                    // -v: print it and exit
  std::vector<intake::GivenOption> given;  // earlyoom's own options, in their order
};

}  // namespace forestall::cli
