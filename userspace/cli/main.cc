// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/managed_oom.h"
#include "cli/managed_oom_rules.h"
#include "cli/rules_commands.h"
#include "cli/top_program.h"

namespace forestall::cli {
namespace {

// Whether an option of --managed-oom is given without it: ignoring it would check something else.
bool refuses(const ManagedOomOptions& managed, const char* command) {
  const char* const option = managed.without_effect();
  if (option == nullptr) return false;
  fail(command, error(fmt::format("{} has no effect without --managed-oom", option)), kExitUsage);
  return true;
}

int run(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (const auto exit_code = parse_command_line(arguments, line)) return *exit_code;
  const Options& options = line.options;
  switch (line.subcommand) {
    case Subcommand::agent: return run_agent(options);
    case Subcommand::demo: return run_demo(options);
    case Subcommand::doctor: return run_doctor(options);
    case Subcommand::status: return run_status(options);
    case Subcommand::signals: return run_signals(options);
    case Subcommand::rank: return run_rank(options, line.rank);
    case Subcommand::score: return run_score(options, line.score);
    case Subcommand::top: return become_companion("top", arguments);
    case Subcommand::cluster: return become_companion("cluster", arguments);
    case Subcommand::events: return run_events(options, line.events);
    case Subcommand::check_config:
      if (refuses(line.managed_oom, "check-config")) return kExitUsage;
      if (!line.rebalance.policy.empty()) return run_check_policy(options, line.rebalance);
      if (line.managed_oom.given()) return run_check_managed_oom(options, line.managed_oom);
      return checks_rules(line.check) ? run_check_rules(options, line.check)
                                      : run_check_config(options);
    case Subcommand::rules:
      if (refuses(line.managed_oom, "rules")) return kExitUsage;
      if (line.rules.observations.empty() && !line.rules.live) {
        return fail("rules", error("nothing to evaluate on: use --observations or --live"),
                    kExitUsage);
      }
      return line.managed_oom.given() ? run_managed_oom_rules(options, line.managed_oom, line.rules)
                                      : run_rules(options, line.rules);
    case Subcommand::import_oomd: return run_import_oomd(options, line.import_oomd);
    case Subcommand::earlyoom: return run_earlyoom(options, line.earlyoom);
    case Subcommand::plan: return run_plan(options, line.plan);
    case Subcommand::qos:
      return line.memory_qos.enabled ? run_memory_qos(options, line.qos, line.memory_qos)
                                     : run_qos(options, line.qos);
    case Subcommand::admit: return run_admit(options, line.admit);
    case Subcommand::rebalance: return run_rebalance(options, line.rebalance);
    case Subcommand::replay: return run_replay(options, line.replay);
    case Subcommand::diff: return run_diff(options, line.diff);
    case Subcommand::report: return run_report(line.report);
    case Subcommand::trace: return run_trace(options, line.trace);
    case Subcommand::record: return run_record(options, line.record);
    case Subcommand::completion: return run_completion(line.completion);
    case Subcommand::version: return run_version(options);
  }
  return kExitFailed;
}

// Standard output is buffered: a full disk is reported only by the last flush.
int flushed(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  // An earlier failed write leaves the error flag, and errno may be of another call.
  std::fprintf(stderr, "forestall: cannot write to standard output; the output is incomplete\n");
  return exit_code == kExitOk ? kExitFailed : exit_code;
}

}  // namespace
}  // namespace forestall::cli

int main(int argc, char** argv) {
  // Our own code throws no exceptions. Those of libraries (bad_alloc, an invalid locale) end in an
  // error message instead of an abort.
  try {
    return forestall::cli::flushed(forestall::cli::run({argv + 1, argv + argc}));
  } catch (const std::exception& failure) {
    // fmt::print() throws if standard output cannot be written.
    if (std::ferror(stdout) != 0) return forestall::cli::flushed(forestall::cli::kExitFailed);
    std::fprintf(stderr, "forestall: %s\n", failure.what());
    return forestall::cli::kExitFailed;
  }
}
