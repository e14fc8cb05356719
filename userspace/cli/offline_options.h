// SPDX-License-Identifier: Apache-2.0
// Options of the offline subcommands, described to CLI11.
#pragma once

#include "cli/memory_qos_options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace forestall::cli {

struct CommandLine;

void describe_check_config(CLI::App& command, CommandLine& line);
void describe_import_oomd(CLI::App& command, CommandLine& line);
void describe_rules(CLI::App& command, CommandLine& line);
void describe_earlyoom(CLI::App& command, CommandLine& line);
void describe_plan(CLI::App& command, CommandLine& line);
void describe_qos(CLI::App& command, CommandLine& line);
void describe_admit(CLI::App& command, CommandLine& line);
void describe_replay(CLI::App& command, CommandLine& line);
void describe_diff(CLI::App& command, CommandLine& line);
void describe_report(CLI::App& command, CommandLine& line);

// `capacity` is --memory-capacity of `forestall qos`.
void add_memory_qos_options(CLI::App& command, MemoryQosOptions& options, CLI::Option* capacity);

}  // namespace forestall::cli
