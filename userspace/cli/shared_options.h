// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands have, described to CLI11.
#pragma once

#include "cli/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace forestall::cli {

// text or json; `names` because -o names a file in some subcommands.
CLI::Option* add_output(CLI::App& command, Options& options, const char* names);
// Where the running agent is.
void add_agent_address(CLI::App& command, Options& options);
// Features and mount points of this host.
void add_host(CLI::App& command, Options& options);
// The configuration files.
void add_config(CLI::App& command, Options& options);
// Overrides of thresholds and reservations.
void add_kubelet_flags(CLI::App& command, Options& options);

}  // namespace forestall::cli
