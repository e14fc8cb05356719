// SPDX-License-Identifier: Apache-2.0
// The table of all subcommands: group of `forestall --help`, name, options and help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace forestall::cli {

struct CommandLine;

// The group of `completion`, `version` and `help`.
inline constexpr const char* kHelpGroup = "Help";

[[nodiscard]] std::vector<std::string> subcommand_names();
// Describes all of them to CLI11. Parsing sets `line`, which outlives `app`.
void add_subcommands(CLI::App& app, CommandLine& line);

}  // namespace forestall::cli
