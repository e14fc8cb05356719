// SPDX-License-Identifier: Apache-2.0
#include "cli/command_program.h"

namespace forestall::cli {
namespace {

// Files of other programs; without one, an option for them is refused.
bool checks_other_files(const CommandLine& line) {
  const ManagedOomOptions& managed = line.managed_oom;
  return !line.rebalance.policy.empty() || line.check.of_oomd() || managed.given() ||
         managed.without_effect() != nullptr;
}

}  // namespace

std::string_view companion_of(const CommandLine& line) {
  switch (line.subcommand) {
    case Subcommand::top: return "forestall-top";
    case Subcommand::cluster: return "forestall-cluster";
    case Subcommand::events:
    case Subcommand::rules:
    case Subcommand::import_oomd:
    case Subcommand::earlyoom:
    case Subcommand::replay:
    case Subcommand::diff:
    case Subcommand::report: return kOfflineProgram;
    case Subcommand::rebalance:
      return line.rebalance.in_cluster() ? "forestall-cluster" : kOfflineProgram;
    case Subcommand::qos: return line.memory_qos.enabled ? kOfflineProgram : "";
    case Subcommand::check_config: return checks_other_files(line) ? kOfflineProgram : "";
    case Subcommand::agent:
    case Subcommand::demo:
    case Subcommand::doctor:
    case Subcommand::status:
    case Subcommand::signals:
    case Subcommand::rank:
    case Subcommand::score:
    case Subcommand::plan:
    case Subcommand::admit:
    case Subcommand::trace:
    case Subcommand::record:
    case Subcommand::completion:
    case Subcommand::version: break;
  }
  return "";
}

}  // namespace forestall::cli
