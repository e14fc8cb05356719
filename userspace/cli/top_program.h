// SPDX-License-Identifier: Apache-2.0
// `forestall top` is a separate program, forestall-top (userspace/top, companion_program.h).
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

// Replaces this process with forestall-top, which gets the same arguments. Returns the exit code if
// the program is not found or does not start.
[[nodiscard]] int become_top(std::vector<std::string> arguments);

}  // namespace forestall::cli
