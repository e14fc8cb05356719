// SPDX-License-Identifier: Apache-2.0
#include "cli/subcommand_table.h"

#include <CLI/CLI.hpp>
#include <cstddef>

#include "cli/command_line.h"
#include "cli/guard_options.h"
#include "cli/inspect_options.h"
#include "cli/offline_options.h"
#include "cli/option_forms.h"
#include "cli/rebalance_options.h"
#include "cli/record_trace_options.h"
#include "cli/shared_options.h"

namespace forestall::cli {
namespace {

void describe_completion(CLI::App& command, CommandLine& line) {
  add_choice(
      command, "shell", shells(),
      [&line](std::size_t i) { line.completion.shell = static_cast<Shell>(i); },
      "The shell whose script is printed; an installation has the scripts of all three")
      ->required();
}

// What a subcommand has besides its own options.
enum Shared : unsigned {
  kNone = 0,
  kOutput = 1,         // -o, --output
  kLongOutput = 2,     // --output, where -o names a file
  kHost = 4,           // --disable-feature, --cgroup-mount
  kConfig = 8,         // --config, --kubelet-config
  kKubeletFlags = 16,  // overrides of thresholds and reservations
};

struct SubcommandRow {
  Subcommand subcommand;
  const char* group;
  const char* name;
  unsigned shared;
  void (*describe)(CLI::App&, CommandLine&);  // may be null
  const char* help;
};

constexpr unsigned kLive = kOutput | kHost | kConfig | kKubeletFlags;
constexpr unsigned kSettings = kOutput | kConfig | kKubeletFlags;
constexpr const char* kGuard = "Guard";
constexpr const char* kCluster = "Cluster";
constexpr const char* kInspect = "Inspect";
constexpr const char* kOffline = "Offline";
constexpr const char* kRecordAndTrace = "Record and trace";

constexpr SubcommandRow kSubcommands[] = {
    {Subcommand::agent, kGuard, "agent", kLive, describe_agent, "Guard this host (the default)"},
    {Subcommand::demo, kGuard, "demo", kOutput | kHost, describe_demo,
     "Leak memory in a scratch cgroup and watch the agent evict it"},
    {Subcommand::doctor, kGuard, "doctor", kOutput | kConfig | kHost, describe_doctor,
     "Check which kernel features this host has and which are missing"},
    {Subcommand::status, kGuard, "status", kOutput, describe_status,
     "Show the state of the running agent"},
    {Subcommand::cluster, kCluster, "cluster", kNone, describe_cluster,
     "Give the running agent the pods of a Kubernetes API server"},
    {Subcommand::rebalance, kCluster, "rebalance", kOutput, describe_rebalance,
     "Move pods from their nodes by a DeschedulerPolicy, or plan it from files"},
    {Subcommand::signals, kInspect, "signals", kLive, nullptr,
     "Show the current value of every signal and threshold"},
    {Subcommand::rank, kInspect, "rank", kLive, describe_rank,
     "Rank workloads in eviction order, or predict the kernel's OOM victim"},
    {Subcommand::score, kInspect, "score", kOutput | kHost, describe_score,
     "Show the kernel's OOM score of processes and how it is computed"},
    {Subcommand::top, kInspect, "top", kHost | kConfig, describe_top,
     "Show thresholds, pressure and the eviction order, live"},
    {Subcommand::events, kInspect, "events", kOutput, describe_events,
     "List kills, kernel OOM kills, crossings and other events of a recording"},
    {Subcommand::check_config, kOffline, "check-config", kSettings, describe_check_config,
     "Check a configuration and show the settings that result"},
    {Subcommand::rules, kOffline, "rules", kOutput, describe_rules,
     "Evaluate rulesets of Forestall, oomd or systemd-oomd on observations"},
    {Subcommand::import_oomd, kOffline, "import-oomd", kNone, describe_import_oomd,
     "Print the rulesets of an oomd.json as Forestall's configuration"},
    {Subcommand::earlyoom, kOffline, "earlyoom", kOutput, describe_earlyoom,
     "Show what earlyoom would do with its options on given readings"},
    {Subcommand::plan, kOffline, "plan", kSettings, describe_plan,
     "Compute allocatable resources and suggest reservations and thresholds"},
    {Subcommand::qos, kOffline, "qos", kOutput, describe_qos,
     "Compute QoS class, requests, oom_score_adj and cgroups of pods"},
    {Subcommand::admit, kOffline, "admit", kOutput, describe_admit,
     "Check whether pods are admitted under pressure, and what they preempt"},
    {Subcommand::replay, kOffline, "replay", kSettings, describe_replay,
     "Repeat the decisions of a recording, or decide on observations"},
    {Subcommand::diff, kOffline, "diff", kOutput, describe_diff,
     "Compare the decisions of two recordings or replays"},
    {Subcommand::report, kOffline, "report", kNone, describe_report,
     "Render a recording as a self-contained HTML page, Markdown or PNG"},
    {Subcommand::trace, kRecordAndTrace, "trace", kHost | kConfig, describe_trace,
     "Trace memory pressure in the kernel, live"},
    {Subcommand::record, kRecordAndTrace, "record", kLongOutput | kHost | kConfig | kKubeletFlags,
     describe_record, "Record what the agent would observe and decide, without acting"},
    {Subcommand::completion, kHelpGroup, "completion", kNone, describe_completion,
     "Print the completions of a shell"},
    {Subcommand::version, kHelpGroup, "version", kOutput, nullptr, "Print the version"},
};

void add_subcommand(CLI::App& app, const SubcommandRow& row, CommandLine& line) {
  CLI::App& command = *app.add_subcommand(row.name, row.help);
  command.group(row.group);
  command.parse_complete_callback([&line, &row] { line.subcommand = row.subcommand; });
  command.footer("See `forestall --help` for exit codes, and forestall(8).");
  if (row.describe != nullptr) row.describe(command, line);
  if ((row.shared & kOutput) != 0) add_output(command, line.options, "-o,--output");
  if ((row.shared & kLongOutput) != 0) add_output(command, line.options, "--output");
  if ((row.shared & kHost) != 0) add_host(command, line.options);
  if ((row.shared & kConfig) != 0) add_config(command, line.options);
  if ((row.shared & kKubeletFlags) != 0) add_kubelet_flags(command, line.options);
}

}  // namespace

std::vector<std::string> subcommand_names() {
  std::vector<std::string> names;
  for (const SubcommandRow& row : kSubcommands) names.emplace_back(row.name);
  return names;
}

void add_subcommands(CLI::App& app, CommandLine& line) {
  for (const SubcommandRow& row : kSubcommands) add_subcommand(app, row, line);
}

}  // namespace forestall::cli
