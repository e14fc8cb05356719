// SPDX-License-Identifier: Apache-2.0
#include "cli/offline_options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/command_line.h"
#include "cli/rebalance_options.h"

namespace forestall::cli {
namespace {

constexpr const char* kOomdGroup = "systemd-oomd";

CLI::Option* add_text(CLI::App& command, const char* name, std::string& target, const char* form,
                      const char* help) {
  return command.add_option(name, target, help)->option_text(form);
}

// earlyoom's own options, kept in the order in which they were given.
void add_own_options(CLI::App& command, EarlyoomCommand& earlyoom) {
  constexpr const char* kGroup = "Options of earlyoom";
  const auto value = [&](const char* name, const char* form, const char* help) {
    const auto keep = [&earlyoom, name](const std::string& given) {
      earlyoom.given.push_back({name, given});
    };
    command.add_option_function<std::string>(name, keep, help)
        ->trigger_on_parse()
        ->option_text(form)
        ->group(kGroup);
  };
  const auto flag = [&](const char* name, const char* help) {
    const auto keep = [&earlyoom, name](std::int64_t) { earlyoom.given.push_back({name, {}}); };
    command.add_flag_function(name, keep, help)->trigger_on_parse()->group(kGroup);
  };
  value("-m", "PERCENT[,KILL]", "Available memory for SIGTERM and SIGKILL (default: 10,5)");
  value("-s", "PERCENT[,KILL]", "Free swap, both at or below (default: 10,5; 100: any)");
  value("-M", "SIZE[,KILL]", "Available memory in KiB");
  value("-S", "SIZE[,KILL]", "Free swap in KiB");
  value("-r", "SECONDS", "Interval of memory reports; 0: none (default: 1)");
  value("-N", "/PATH", "Program that runs after a kill");
  value("-P", "/PATH", "Program that runs before a kill (1.9)");
  value("--prefer", "REGEX", "Prefer processes whose name matches");
  value("--avoid", "REGEX", "Avoid processes whose name matches");
  value("--ignore", "REGEX", "Ignore processes whose name matches (1.8)");
  flag("--ignore-root-user", "Ignore processes of root (1.8)");
  flag("--sort-by-rss", "Rank by resident memory in place of oom_score (1.8)");
  flag("-n", "Notify over D-Bus");
  flag("-g", "Signal the victim's process group");
  flag("-p", "Raise the priority");
  flag("-d", "Debug messages");
  flag("--debug", "The same (1.8)");
  flag("--syslog", "Log to syslog (1.8)");
  flag("--dryrun", "Kill nothing");
  flag("-k", "Accepted and ignored");
  flag("-i", "Accepted and ignored");
}

// --oomd-config, --drop-in-dir.
CLI::Option* add_oomd(CLI::App& command, std::string& config, std::string& drop_ins) {
  CLI::Option* oomd =
      add_text(command, "--oomd-config", config, "FILE", "Rulesets of oomd 0.5.0, as oomd.json");
  add_text(command, "--drop-in-dir", drop_ins, "DIRECTORY", "oomd's directory of drop-ins")
      ->needs(oomd);
  return oomd;
}

CLI::Option* add_managed_oom_options(CLI::App& command, ManagedOomOptions& options) {
  CLI::Option* messages =
      add_text(command, "--managed-oom", options.managed_oom, "FILE",
               "Messages of PID 1 about ManagedOOM properties of systemd's units, JSON");
  CLI::Option* conf = add_text(command, "--oomd-conf", options.oomd_conf, "FILE", "oomd.conf");
  CLI::Option* version = add_text(command, "--systemd-version", options.systemd_version, "N",
                                  "The systemd whose rules apply (default: 257)");
  for (CLI::Option* each : {messages, conf, version}) each->group(kOomdGroup);
  return messages;
}

void add_managed_rank_options(CLI::App& command, ManagedOomOptions& options) {
  CLI::Option* owners = add_text(command, "--owners", options.owners, "FILE",
                                 "JSON object of cgroups and the user ids that own them");
  CLI::Option* rank = add_text(command, "--rank", options.rank, "swap|pgscan",
                               "Rank candidates as systemd-oomd does");
  CLI::Option* candidates =
      add_text(command, "--candidates", options.candidates, "FILE",
               "JSON object of cgroups and their swap_current, pgscan, last_pgscan, current and "
               "preference");
  candidates->needs(rank);
  for (CLI::Option* each : {owners, rank, candidates}) each->group(kOomdGroup);
}

}  // namespace

void describe_earlyoom(CLI::App& command, CommandLine& line) {
  EarlyoomCommand& earlyoom = line.earlyoom;
  add_text(command, "--compat", earlyoom.compat, "1.7|1.9",
           "The earlyoom whose rules apply (default: 1.9)");
  add_text(command, "--meminfo", earlyoom.meminfo, "FILE", "A copy of /proc/meminfo");
  add_text(command, "--processes", earlyoom.processes, "FILE",
           "JSON list of {pid, ppid, uid, comm, oom_score, oom_score_adj, rss_kib}, in the order "
           "of /proc");
  command.add_flag("-v", earlyoom.version, "Print the version and exit");
  add_own_options(command, earlyoom);
}

void add_memory_qos_options(CLI::App& command, MemoryQosOptions& options, CLI::Option* capacity) {
  constexpr const char* kGroup = "Memory QoS";
  CLI::Option* memory_qos =
      command
          .add_flag("--memory-qos", options.enabled,
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
  CLI::Option* oomd = add_oomd(command, line.check.oomd_config, line.check.drop_in_dir);
  describe_policy_check(command, line.rebalance);
  add_managed_oom_options(command, line.managed_oom)
      ->excludes(oomd)
      ->excludes(command.get_option("--policy-config-file"));
  add_managed_rank_options(command, line.managed_oom);
}

void describe_import_oomd(CLI::App& command, CommandLine& line) {
  command
      .add_option("FILE", line.import_oomd.file,
                  "A configuration of oomd 0.5.0; - is standard input")
      ->required();
}

void describe_rules(CLI::App& command, CommandLine& line) {
  RulesOptions& options = line.rules;
  CLI::Option* oomd = add_oomd(command, options.oomd_config, options.drop_in_dir);
  CLI::Option* own = add_text(command, "--config", options.config, "FILE",
                              "Rulesets of Forestall's configuration");
  own->excludes(oomd);
  CLI::Option* senpai = add_text(command, "--senpai", options.senpai, "FILE",
                                 "Options of the standalone senpai, as a JSON object");
  senpai->excludes(oomd)->excludes(own);
  add_managed_oom_options(command, line.managed_oom)
      ->excludes(oomd)
      ->excludes(senpai)
      ->excludes(own);
  add_text(command, "--observations", options.observations, "FILE",
           "What is observed, one JSON object a line; - reads standard input");
  CLI::Option* live = command.add_flag("--live", options.live,
                                       "Evaluate on this host, once a second; acts on nothing");
  live->excludes(command.get_option("--observations"))
      ->excludes(command.get_option("--managed-oom"));
  command
      .add_option("--count", options.count, "With --live: number of evaluations; 0 does not end")
      ->needs(live);
  add_text(command, "--io-devices", options.io_devices, "LIST",
           "Devices whose I/O has a cost, such as 8:0=hdd,259:0=ssd");
  command.add_flag("--dry-run", options.dry_run, "Take every action as a dry run");
}

}  // namespace forestall::cli
