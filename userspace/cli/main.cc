// SPDX-License-Identifier: Apache-2.0
#include "cli/command_program.h"
#include "cli/commands.h"
#include "cli/companion_program.h"
#include "cli/exit_code.h"
#include "cli/program_main.h"

namespace forestall::cli {
namespace {

int run(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (const auto exit_code = parse_command_line(arguments, line)) return *exit_code;
  const std::string_view other = companion_of(line);
  if (!other.empty()) return become_companion(std::string(other), arguments);
  const Options& options = line.options;
  switch (line.subcommand) {
    case Subcommand::agent: return run_agent(options);
    case Subcommand::demo: return run_demo(options);
    case Subcommand::doctor: return run_doctor(options);
    case Subcommand::status: return run_status(options);
    case Subcommand::signals: return run_signals(options);
    case Subcommand::rank: return run_rank(options, line.rank);
    case Subcommand::score: return run_score(options, line.score);
    case Subcommand::check_config: return run_check_config(options);
    case Subcommand::plan: return run_plan(options, line.plan);
    case Subcommand::qos: return run_qos(options, line.qos);
    case Subcommand::admit: return run_admit(options, line.admit);
    case Subcommand::trace: return run_trace(options, line.trace);
    case Subcommand::record: return run_record(options, line.record);
    case Subcommand::completion: return run_completion(line.completion);
    case Subcommand::version: return run_version(options);
    // companion_of() has other programs for these.
    case Subcommand::top:
    case Subcommand::cluster:
    case Subcommand::events:
    case Subcommand::rules:
    case Subcommand::import_oomd:
    case Subcommand::earlyoom:
    case Subcommand::rebalance:
    case Subcommand::replay:
    case Subcommand::diff:
    case Subcommand::report: break;
  }
  return kExitFailed;
}

}  // namespace
}  // namespace forestall::cli

int main(int argc, char** argv) {
  const auto plugin = forestall::cli::become_kubectl_plugin(argc, argv);
  if (plugin) return *plugin;
  return forestall::cli::program_main(argc, argv, forestall::cli::run);
}
