// SPDX-License-Identifier: Apache-2.0
#include "cli/offline_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "cli/command_line.h"
#include "cli/rebalance_options.h"

namespace forestall::cli {
namespace {

CLI::Option* add_text(CLI::App& command, const char* name, std::string& target, const char* form,
                      const char* help) {
  return command.add_option(name, target, help)->option_text(form);
}

// --oomd-config, --drop-in-dir.
CLI::Option* add_oomd(CLI::App& command, std::string& config, std::string& drop_ins) {
  CLI::Option* oomd =
      add_text(command, "--oomd-config", config, "FILE", "Rulesets of oomd 0.5.0, as oomd.json");
  add_text(command, "--drop-in-dir", drop_ins, "DIRECTORY", "oomd's directory of drop-ins")
      ->needs(oomd);
  return oomd;
}

}  // namespace

void add_memory_qos_options(CLI::App& command, MemoryQosOptions& options, CLI::Option* capacity) {
  constexpr const char* kGroup = "Memory QoS";
  CLI::Option* memory_qos =
      command
          .add_flag("--memory-qos", options.asked,
                    "Show the memory.min, memory.low and memory.high that the kubelet writes")
          ->group(kGroup);
  CLI::Option* allocatable =
      add_text(command, "--node-allocatable", options.node_allocatable, "QUANTITY",
               "Capacity minus kubeReserved and systemReserved, in place of --memory-capacity; 0 "
               "is unknown")
          ->excludes(capacity)
          ->group(kGroup);
  CLI::Option* config =
      add_text(command, "--kubelet-config", options.kubelet_config, "FILE",
               "KubeletConfiguration with the reservations, memoryThrottlingFactor, "
               "memoryReservationPolicy and the gate MemoryQoS")
          ->group(kGroup);
  CLI::Option* version = add_text(command, "--kubelet-version", options.kubelet_version, "1.Y",
                                  "The kubelet whose formulas apply (default: 1.37)")
                             ->group(kGroup);
  CLI::Option* page = add_text(command, "--page-size", options.page_size, "QUANTITY",
                               "Size of a page (default: this host's)")
                          ->group(kGroup);
  for (CLI::Option* each : {allocatable, config, version, page}) each->needs(memory_qos);
}

void describe_check_config(CLI::App& command, CommandLine& line) {
  add_oomd(command, line.check.oomd_config, line.check.drop_in_dir);
  describe_policy_check(command, line.rebalance);
}

void describe_rules(CLI::App& command, CommandLine& line) {
  RulesOptions& options = line.rules;
  CLI::Option* oomd = add_oomd(command, options.oomd_config, options.drop_in_dir);
  add_text(command, "--senpai", options.senpai, "FILE",
           "Options of the standalone senpai, as a JSON object")
      ->excludes(oomd);
  add_text(command, "--observations", options.observations, "FILE",
           "What is observed, one JSON object a line; - reads standard input")
      ->required();
  add_text(command, "--io-devices", options.io_devices, "LIST",
           "Devices whose I/O has a cost, such as 8:0=hdd,259:0=ssd");
  command.add_flag("--dry-run", options.dry_run, "Take every action as a dry run");
}

}  // namespace forestall::cli
