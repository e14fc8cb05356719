// SPDX-License-Identifier: Apache-2.0
// Programs that are installed with forestall and that it executes, so that the agent's program,
// which locks its code in memory, has neither their code nor their libraries: forestall-top,
// forestall-cluster, forestall-offline; forestall-offline executes forestall-plot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace forestall::cli {

// Path of the program `name`. It is searched in this program's directory (as in a build tree), in
// libexec/forestall of this program's prefix, and in the configured install directory. Errors:
// ENOENT with the list of directories.
[[nodiscard]] Result<std::string> companion_program(const std::string& name);

// Replaces this process with the program `name`, which gets the same arguments. Returns the exit
// code if it is not found or does not start, with an error message.
[[nodiscard]] int become_companion(const std::string& name, std::vector<std::string> arguments);

// Under the name kubectl-forestall, this program is a plugin of kubectl: replaces this process with
// forestall-cluster, which runs `kubectl forestall`. Returns nothing under any other name.
[[nodiscard]] std::optional<int> become_kubectl_plugin(int argc, char** argv);

}  // namespace forestall::cli
