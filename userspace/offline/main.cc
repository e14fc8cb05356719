// SPDX-License-Identifier: Apache-2.0
// forestall-offline, which `forestall` executes for the subcommands that evaluate files. It is a
// separate program because the agent, which may kill, needs none of this code: its program is
// smaller, and a first build of it takes two thirds of the time.
#include <fmt/format.h>

#include <cstdio>

#include "base/result.h"
#include "cli/command_program.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/program_main.h"
#include "offline/commands.h"

namespace forestall::cli {
namespace {

// Whether an option of --managed-oom is given without it: ignoring it would check something else.
bool refuses(const ManagedOomOptions& managed, const char* command) {
  const char* const option = managed.without_effect();
  if (option == nullptr) return false;
  fail(command, error(fmt::format("{} has no effect without --managed-oom", option)), kExitUsage);
  return true;
}

int check_config(const CommandLine& line) {
  if (refuses(line.managed_oom, "check-config")) return kExitUsage;
  if (!line.rebalance.policy.empty()) return run_check_policy(line.options, line.rebalance);
  return line.managed_oom.given() ? run_check_managed_oom(line.options, line.managed_oom)
                                  : run_check_rules(line.options, line.check);
}

int rules(const CommandLine& line) {
  if (refuses(line.managed_oom, "rules")) return kExitUsage;
  if (line.rules.observations.empty() && !line.rules.live) {
    return fail("rules", error("nothing to evaluate on: use --observations or --live"), kExitUsage);
  }
  return line.managed_oom.given()
             ? run_managed_oom_rules(line.options, line.managed_oom, line.rules)
             : run_rules(line.options, line.rules);
}

// The arguments are those of `forestall`, the subcommand included.
int run(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (const auto exit_code = parse_command_line(arguments, line)) return *exit_code;
  const Options& options = line.options;
  if (companion_of(line) == kOfflineProgram) {
    switch (line.subcommand) {
      case Subcommand::events: return run_events(options, line.events);
      case Subcommand::check_config: return check_config(line);
      case Subcommand::rules: return rules(line);
      case Subcommand::import_oomd: return run_import_oomd(options, line.import_oomd);
      case Subcommand::earlyoom: return run_earlyoom(options, line.earlyoom);
      case Subcommand::qos: return run_memory_qos(options, line.qos, line.memory_qos);
      case Subcommand::rebalance:
        return line.rebalance.simulate.enabled ? run_simulation(options, line.rebalance.simulate)
                                               : run_rebalance(options, line.rebalance);
      case Subcommand::replay: return run_replay(options, line.replay);
      case Subcommand::diff: return run_diff(options, line.diff);
      case Subcommand::report: return run_report(line.report);
      // companion_of() has other programs for these.
      case Subcommand::agent:
      case Subcommand::demo:
      case Subcommand::doctor:
      case Subcommand::status:
      case Subcommand::signals:
      case Subcommand::rank:
      case Subcommand::score:
      case Subcommand::top:
      case Subcommand::cluster:
      case Subcommand::plan:
      case Subcommand::admit:
      case Subcommand::trace:
      case Subcommand::record:
      case Subcommand::completion:
      case Subcommand::version: break;
    }
  }
  std::fputs("forestall-offline: this program is run by `forestall`\n", stderr);
  return kExitUsage;
}

}  // namespace
}  // namespace forestall::cli

int main(int argc, char** argv) {
  return forestall::cli::program_main(argc, argv, forestall::cli::run);
}
