// SPDX-License-Identifier: Apache-2.0
#include "cli/rebalance_options.h"

#include <CLI/CLI.hpp>

#include "cli/command_line.h"

namespace forestall::cli {
namespace {

constexpr const char* kClusterHelp =
    "State of the cluster, as `kubectl get -A -o json` prints nodes, pods, namespaces, "
    "poddisruptionbudgets, priorityclasses, persistentvolumeclaims, persistentvolumes, replicasets "
    "and nodereports; may be repeated";

CLI::Option* add_files(CLI::App& command, const char* name, std::vector<std::string>& files,
                       const char* help) {
  return command.add_option(name, files, help)->option_text("FILE...")->expected(1, -1);
}

CLI::Option* add_policy(CLI::App& command, RebalanceOptions& options) {
  return command
      .add_option("--policy-config-file", options.policy,
                  "DeschedulerPolicy (descheduler/v1alpha2 or v1alpha1), YAML or JSON")
      ->option_text("FILE");
}

}  // namespace

void describe_rebalance(CLI::App& command, CommandLine& line) {
  RebalanceOptions& options = line.rebalance;
  add_policy(command, options)->required();
  add_files(command, "--cluster", options.cluster, kClusterHelp)->required();
  add_files(command, "--metrics", options.metrics,
            "NodeMetrics and PodMetrics as `kubectl get --raw /apis/metrics.k8s.io/v1beta1/...` "
            "prints them, in the order of their collection, or answers of Prometheus");
  command
      .add_option("--compat", options.compat,
                  "upstream: decide exactly as the descheduler; fixed: correct its known faults, "
                  "which -o json lists (default: the policy's key compat, or upstream)")
      ->option_text("MODE")
      ->check(CLI::IsMember({"upstream", "fixed"}));
  command
      .add_option("--history", options.history,
                  "What an earlier plan printed with -o json: pods that its moves concern are not "
                  "moved again within the policy's pacing")
      ->option_text("FILE");
  command.add_flag("--dry-run", options.dry_run,
                   "Accepted for compatibility: a plan from files never evicts");
  command
      .add_option("--now", options.now,
                  "The time for which the plan is made, such as 2026-01-02T15:04:05Z (default: "
                  "the time of day)")
      ->option_text("TIME");
}

void describe_policy_check(CLI::App& command, RebalanceOptions& options) {
  constexpr const char* kGroup = "DeschedulerPolicy";
  CLI::Option* const policy = add_policy(command, options)->group(kGroup);
  add_files(command, "--cluster", options.cluster,
            "Objects of the cluster, of which PriorityClasses resolve thresholds by name")
      ->needs(policy)
      ->group(kGroup);
}

}  // namespace forestall::cli
