// SPDX-License-Identifier: Apache-2.0
#include "cli/guard_options.h"

#include <CLI/CLI.hpp>
#include <cstddef>

#include "cli/cluster_options.h"
#include "cli/command_line.h"
#include "cli/option_forms.h"
#include "cli/shared_options.h"

namespace forestall::cli {

void describe_agent(CLI::App& command, CommandLine& line) {
  command.add_flag("--dry-run", line.options.dry_run, "Decide and log, but send no signals");
  add_value(command, "--oomd-config", line.options.oomd_config, "FILE",
            "Run the rulesets of oomd's configuration; SIGHUP reads it again");
  add_value(command, "--oomd-drop-in-dir", line.options.oomd_drop_in_dir, "DIRECTORY",
            "oomd's directory of drop-ins, with --oomd-config");
  add_value(command, "--run-dir", line.options.run_directory, "DIRECTORY",
            "Directory of the sockets and of the lock that excludes a second agent (default: "
            "/run/forestall)");
  add_value(command, "--keep-guard", line.options.keep_guard, "PLACE",
            "Where the guard is kept while no agent runs: a directory on a bpffs, or systemd for "
            "the service manager's descriptor store (default: nowhere)");
  command.add_flag("-v,--verbose", line.options.verbose,
                   "Log every evaluation, not only decisions");
  add_choice(
      command, "--log-format", {"text", "logfmt", "json"},
      [&options = line.options](std::size_t i) {
        options.log_format = static_cast<exports::LogFormat>(i);
      },
      "Format of the log: short sentences, or all values for programs (default: text on a "
      "terminal, else logfmt)");
}

void describe_doctor(CLI::App& command, CommandLine& line) {
  add_value(command, "--keep-guard", line.options.keep_guard, "DIRECTORY",
            "The agent's directory of pins, to list the guards in it");
}

void describe_demo(CLI::App& command, CommandLine& line) {
  command.add_flag("-v,--verbose", line.options.verbose, "Show the agent's log as well");
}

void describe_status(CLI::App& command, CommandLine& line) {
  command.add_flag("--managed", line.options.managed,
                   "Show the cgroups of systemd's ManagedOOM properties with their readings only");
  add_agent_address(command, line.options);
}

void describe_cluster(CLI::App& command, CommandLine& line) {
  add_cluster_options(command, line.cluster);
  add_agent_address(command, line.options);
}

}  // namespace forestall::cli
