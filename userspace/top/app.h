// SPDX-License-Identifier: Apache-2.0
// `forestall top`: pictures to the screen, keys to the view, until somebody wants out.
#pragma once

#include <string>

#include "cli/options.h"
#include "top/view.h"

namespace forestall::top {

// As they were given; empty: not given.
struct TopOptions {
  bool once = false;
  std::string interval;
  std::string ranking;
  std::string color = "auto";
  bool ascii = false;
  bool no_mouse = false;
  bool without_agent = false;
};

// Returns the exit code.
int run_top(const cli::Options& options, const TopOptions& top);

}  // namespace forestall::top
