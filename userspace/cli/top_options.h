// SPDX-License-Identifier: Apache-2.0
// Options of `forestall top`.
#pragma once

#include <string>

namespace forestall::cli {

// As given on the command line; empty: not given.
struct TopOptions {
  bool once = false;
  std::string interval;
  std::string ranking;
  std::string color = "auto";
  bool ascii = false;
  bool no_mouse = false;
  bool without_agent = false;
};

}  // namespace forestall::cli
