// SPDX-License-Identifier: Apache-2.0
#include "cli/recording_commands.h"

#include <CLI/CLI.hpp>

namespace forestall::cli {

void add_record_options(CLI::App& command, RecordOptions& options) {
  command.add_option("-o,--out", options.file, "The file to be made")->required();
  command.add_flag("-f,--force", options.force, "Overwrite it if it is there");
  command.add_option("--duration", options.duration,
                     "End by itself after so long (default: at Ctrl-C)");
  command.add_option("--cgroup", options.cgroups,
                     "Cgroups to be recorded as workloads besides pods and those that the "
                     "configuration names: a glob of their paths; may be given more than once");
}

void add_replay_options(CLI::App& command, ReplayOptions& options) {
  command
      .add_option("file", options.file,
                  "A recording, or the directory of an agent's; or observations or the agent's "
                  "records, one JSON object a line, - being standard input")
      ->required();
  command.add_flag("--all", options.all,
                   "Show every decision not to act, not just the first of equal ones");
  command.add_option("--at", options.at,
                     "Show the one look in force at this time in full, with the ranking: since the "
                     "first look (12.5s), or of the wall clock (2025-03-14T10:11:12Z)");
  command
      .add_option("--ranking", options.ranking,
                  "Rank by this instead of what the configuration says")
      ->option_text("kubelet|kernel|kubelet+growth");
}

void add_diff_options(CLI::App& command, DiffOptions& options) {
  const char* const what = "A recording, or what `forestall replay -o json` printed";
  command.add_option("before", options.before, what)->required();
  command.add_option("after", options.after, what)->required();
  command.footer("Exit codes: 0 the same; 1 different; 2 trouble.");
}

}  // namespace forestall::cli
