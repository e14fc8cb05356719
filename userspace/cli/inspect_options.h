// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that show this host, described to CLI11.
#pragma once

namespace CLI {
class App;
}

namespace forestall::cli {

struct CommandLine;

void describe_rank(CLI::App& command, CommandLine& line);
void describe_score(CLI::App& command, CommandLine& line);
void describe_top(CLI::App& command, CommandLine& line);
void describe_events(CLI::App& command, CommandLine& line);

}  // namespace forestall::cli
