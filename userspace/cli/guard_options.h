// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that guard this host, described to CLI11.
#pragma once

namespace CLI {
class App;
}

namespace forestall::cli {

struct CommandLine;

void describe_agent(CLI::App& command, CommandLine& line);
void describe_doctor(CLI::App& command, CommandLine& line);
void describe_demo(CLI::App& command, CommandLine& line);
void describe_status(CLI::App& command, CommandLine& line);
void describe_cluster(CLI::App& command, CommandLine& line);

}  // namespace forestall::cli
