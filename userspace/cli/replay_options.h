// SPDX-License-Identifier: Apache-2.0
// Options of `forestall replay`.
#pragma once

#include <string>

namespace forestall::cli {

struct ReplayOptions {
  std::string file;  // "-": standard input
  bool all = false;  // text: every decision in a line of its own
};

}  // namespace forestall::cli
