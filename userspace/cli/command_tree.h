// SPDX-License-Identifier: Apache-2.0
// CLI11's description of the command line, as shell completions need it.
#pragma once

#include <vector>

#include "cli/completion.h"

namespace CLI {
class App;
}  // namespace CLI

namespace forestall::cli {

// The program itself, then its subcommands. Values are known from the form that the help shows:
// FILE and PATH are files, DIRECTORY is a directory, a|b is a choice; the name of the option's type
// takes precedence if it is a choice.
[[nodiscard]] std::vector<CompletedCommand> command_tree(const CLI::App& app);

}  // namespace forestall::cli
