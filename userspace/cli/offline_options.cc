// SPDX-License-Identifier: Apache-2.0
#include "cli/offline_options.h"

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/command_line.h"
#include "cli/option_forms.h"
#include "cli/rebalance_options.h"

namespace forestall::cli {
namespace {

constexpr const char* kOomdGroup = "systemd-oomd";
constexpr const char* kPodList = "Output of `kubectl get pods -o json`; - reads standard input";

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
      add_value(command, "--oomd-config", config, "FILE", "Rulesets of oomd 0.5.0, as oomd.json");
  add_value(command, "--drop-in-dir", drop_ins, "DIRECTORY", "oomd's directory of drop-ins")
      ->needs(oomd);
  return oomd;
}

CLI::Option* add_managed_oom_options(CLI::App& command, ManagedOomOptions& options) {
  CLI::Option* messages =
      add_value(command, "--managed-oom", options.managed_oom, "FILE",
                "Messages of PID 1 about ManagedOOM properties of systemd's units, JSON");
  CLI::Option* conf = add_value(command, "--oomd-conf", options.oomd_conf, "FILE", "oomd.conf");
  CLI::Option* version = add_value(command, "--systemd-version", options.systemd_version, "N",
                                   "The systemd whose rules apply (default: 257)");
  for (CLI::Option* each : {messages, conf, version}) each->group(kOomdGroup);
  return messages;
}

void add_managed_rank_options(CLI::App& command, ManagedOomOptions& options) {
  CLI::Option* owners = add_value(command, "--owners", options.owners, "FILE",
                                  "JSON object of cgroups and the user ids that own them");
  CLI::Option* rank = add_value(command, "--rank", options.rank, "swap|pgscan",
                                "Rank candidates as systemd-oomd does");
  CLI::Option* candidates =
      add_value(command, "--candidates", options.candidates, "FILE",
                "JSON object of cgroups and their swap_current, pgscan, last_pgscan, current and "
                "preference");
  candidates->needs(rank);
  for (CLI::Option* each : {owners, rank, candidates}) each->group(kOomdGroup);
}

std::string not_text(const std::string& file) {
  if (file != "text") return {};
  return "a report has no text format; use one of: " + CLI::detail::join(report_formats(), ", ") +
         "; for a file, write ./text";
}

}  // namespace

void describe_earlyoom(CLI::App& command, CommandLine& line) {
  EarlyoomCommand& earlyoom = line.earlyoom;
  add_value(command, "--compat", earlyoom.compat, "1.7|1.9",
            "The earlyoom whose rules apply (default: 1.9)");
  add_value(command, "--meminfo", earlyoom.meminfo, "FILE", "A copy of /proc/meminfo");
  add_value(command, "--processes", earlyoom.processes, "FILE",
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
      add_value(command, "--node-allocatable", options.node_allocatable, "QUANTITY",
                "Capacity minus kubeReserved and systemReserved, in place of --memory-capacity; 0 "
                "is unknown")
          ->excludes(capacity)
          ->group(kGroup);
  CLI::Option* config =
      add_value(command, "--kubelet-config", options.kubelet_config, "FILE",
                "KubeletConfiguration with the reservations, memoryThrottlingFactor, "
                "memoryReservationPolicy and the gate MemoryQoS")
          ->group(kGroup);
  CLI::Option* version = add_value(command, "--kubelet-version", options.kubelet_version, "1.Y",
                                   "The kubelet whose formulas apply (default: 1.37)")
                             ->group(kGroup);
  CLI::Option* page = add_value(command, "--page-size", options.page_size, "QUANTITY",
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
  CLI::Option* own = add_value(command, "--config", options.config, "FILE",
                               "Rulesets of Forestall's configuration");
  own->excludes(oomd);
  CLI::Option* senpai = add_value(command, "--senpai", options.senpai, "FILE",
                                  "Options of the standalone senpai, as a JSON object");
  senpai->excludes(oomd)->excludes(own);
  add_managed_oom_options(command, line.managed_oom)
      ->excludes(oomd)
      ->excludes(senpai)
      ->excludes(own);
  add_value(command, "--observations", options.observations, "FILE",
            "What is observed, one JSON object a line; - reads standard input");
  CLI::Option* live = command.add_flag("--live", options.live,
                                       "Evaluate on this host, once a second; acts on nothing");
  live->excludes(command.get_option("--observations"))
      ->excludes(command.get_option("--managed-oom"));
  command
      .add_option("--count", options.count, "With --live: number of evaluations; 0 does not end")
      ->needs(live);
  add_value(command, "--io-devices", options.io_devices, "LIST",
            "Devices whose I/O has a cost, such as 8:0=hdd,259:0=ssd");
  command.add_flag("--dry-run", options.dry_run, "Take every action as a dry run");
}

void describe_plan(CLI::App& command, CommandLine& line) {
  PlanOptions& options = line.plan;
  add_value(command, "--memory-capacity", options.memory, "AMOUNT",
            "Memory of the node, such as 32Gi (without any capacity: this host's)");
  add_value(command, "--cpu", options.cpu, "NUMBER", "CPUs of the node");
  add_value(command, "--storage", options.storage, "AMOUNT",
            "Size of the node's nodefs, such as 100Gi");
  add_value(command, "--pids", options.pids, "NUMBER", "Process IDs of the node");
  add_value(command, "--pods", options.pods, "NUMBER", "Pods that the node accepts (maxPods)");
  add_value(command, "--hugepages", options.huge_pages, "AMOUNT",
            "Memory preallocated for huge pages (default: none)");
  add_value(command, "--reserve", options.reserve, "PART",
            "Memory reserved for the system: a percentage or an amount");
  add_value(command, "--evict-at", options.evict_at, "PART",
            "Memory in use at which eviction starts: a percentage or an amount");
}

void describe_qos(CLI::App& command, CommandLine& line) {
  QosOptions& options = line.qos;
  add_value(command, "--pods", options.pods, "FILE", kPodList)->required();
  CLI::Option* capacity = add_value(command, "--memory-capacity", options.memory_capacity,
                                    "QUANTITY", "MemTotal of the node, such as 16Gi");
  add_value(command, "--cgroup-root", options.cgroup_root, "CGROUP",
            "The kubelet's cgroupRoot (default: /)");
  add_value(command, "--runtime", options.runtime, "containerd|crio",
            "The runtime whose cgroup names are shown (default: containerd)")
      ->check(one_of({"containerd", "crio"}));
  add_memory_qos_options(command, line.memory_qos, capacity);
}

void describe_admit(CLI::App& command, CommandLine& line) {
  AdmitOptions& options = line.admit;
  add_value(command, "--pods", options.pods, "FILE", kPodList)->required();
  add_value(command, "--conditions", options.conditions, "LIST",
            "Node conditions: MemoryPressure, DiskPressure, PIDPressure (default: none)");
  CLI::Option* allocatable =
      add_value(command, "--allocatable", options.allocatable, "LIST",
                "Allocatable resources of the node, such as cpu=4,memory=8Gi,pods=110; others are "
                "unlimited. Shows which pods each critical pod would preempt");
  add_value(command, "--running", options.running, "FILE",
            "Pods already on the node, in the form of --pods (default: none)")
      ->needs(allocatable);
}

void describe_replay(CLI::App& command, CommandLine& line) {
  ReplayOptions& options = line.replay;
  add_value(command, "file", options.file, "",
            "A recording, the directory of an agent's recordings, or a file of observations or "
            "records with one JSON object per line; - reads standard input")
      ->required();
  command.add_flag("--all", options.all,
                   "Show every decision not to act, not only the first of a run of equal ones");
  add_value(command, "--at", options.at, "TIME",
            "Show the evaluation in force at this time, with its ranking: time since the first "
            "evaluation (12.5s) or wall-clock time (2025-03-14T10:11:12Z)");
  add_value(command, "--ranking", options.ranking, "kubelet|kernel|kubelet+growth",
            "Rank by this order instead of the configuration's");
  command.footer(
      "A recording is replayed under its own configuration. --config replaces it; "
      "--kubelet-config and kubelet's flags override single keys of it.\n"
      "See `forestall --help` for exit codes, and forestall(8).");
}

void describe_diff(CLI::App& command, CommandLine& line) {
  const char* const what = "A recording, or the output of `forestall replay -o json`";
  add_value(command, "before", line.diff.before, "", what)->required();
  add_value(command, "after", line.diff.after, "", what)->required();
  command.footer("Exit codes: 0 equal; 1 different; 2 error.");
}

void describe_report(CLI::App& command, CommandLine& line) {
  ReportOptions& options = line.report;
  add_value(command, "file", options.file, "",
            "A recording, or the directory of an agent's recordings")
      ->required();
  add_value(command, "-o,--out", options.out, "FILE|FORMAT",
            "Output file (default: standard output, also for -), or a format for standard output; "
            "write ./json for a file with such a name")
      ->check(not_text);
  add_choice(
      command, "--format,--output", report_formats(),
      [&options](std::size_t i) { options.format = static_cast<ReportFormat>(i); },
      "html: a self-contained page; md and png: for a ticket; json: the data of the others "
      "(default: by the suffix of the output file, else html)");
  command.add_flag("-f,--force", options.force, "Overwrite an existing file");
  add_value(command, "--workloads", options.workloads, "N",
            "Draw the N largest workloads individually and the others as their sum (default: 12)")
      ->check(CLI::Range(1, 100));
}

}  // namespace forestall::cli
