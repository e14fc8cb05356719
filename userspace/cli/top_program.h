// SPDX-License-Identifier: Apache-2.0
// `forestall top` is a program of its own, forestall-top (userspace/top, companion_program.h).
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

// Becomes that program, given what stands behind the word "top". Returns only when it cannot be
// found or run, with the exit code.
int become_top(std::vector<std::string> arguments);

}  // namespace forestall::cli
