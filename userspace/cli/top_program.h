// SPDX-License-Identifier: Apache-2.0
// Subcommands that are separate programs (companion_program.h): `forestall top` is forestall-top
// (userspace/top), `forestall cluster` is forestall-cluster (userspace/cluster).
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

// Replaces this process with forestall-COMMAND, which gets the same arguments. Returns the exit
// code if the program is not found or does not start.
[[nodiscard]] int become_companion(const std::string& command, std::vector<std::string> arguments);

}  // namespace forestall::cli
