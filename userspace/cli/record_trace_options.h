// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that record and trace, described to CLI11.
#pragma once

namespace CLI {
class App;
}

namespace forestall::cli {

struct CommandLine;

void describe_trace(CLI::App& command, CommandLine& line);
void describe_record(CLI::App& command, CommandLine& line);

}  // namespace forestall::cli
