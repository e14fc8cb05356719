// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdio>

#include "base/printable.h"
#include "base/result.h"

namespace forestall::cli {

// Prints why `forestall COMMAND` failed, and returns `code`, the exit code (cli/exit_code.h).
inline int fail(const char* command, const Error& failure, int code) {
  fmt::print(stderr, "forestall {}: {}\n", command, printable_lines(failure.text()));
  return code;
}

}  // namespace forestall::cli
