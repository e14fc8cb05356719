// SPDX-License-Identifier: Apache-2.0
// Options of the offline commands that stand for other programs, described to CLI11.
#pragma once

#include "cli/memory_qos_options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace forestall::cli {

struct CommandLine;

// The subcommands, as command_line.cc lists them.
void describe_check_config(CLI::App& command, CommandLine& line);
void describe_import_oomd(CLI::App& command, CommandLine& line);
void describe_rules(CLI::App& command, CommandLine& line);
void describe_earlyoom(CLI::App& command, CommandLine& line);

// `capacity` is --memory-capacity of `forestall qos`.
void add_memory_qos_options(CLI::App& command, MemoryQosOptions& options, CLI::Option* capacity);

}  // namespace forestall::cli
