// SPDX-License-Identifier: Apache-2.0
// Which program runs a subcommand.
#pragma once

#include <string_view>

#include "cli/command_line.h"

namespace forestall::cli {

inline constexpr std::string_view kOfflineProgram = "forestall-offline";  // evaluates files

// The program's name; empty: forestall itself.
[[nodiscard]] std::string_view companion_of(const CommandLine& line);

}  // namespace forestall::cli
