// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <utility>

#include "base/parse.h"
#include "base/printable.h"
#include "cli/command_arguments.h"
#include "cli/command_error.h"
#include "cli/command_help.h"
#include "cli/command_tree.h"
#include "cli/event_line.h"
#include "cli/exit_code.h"
#include "cli/offline_options.h"
#include "intake/kubelet_flags.h"
#include "messages/yaml_message.h"
#include "model/feature.h"

namespace forestall::cli {
namespace {

constexpr const char* kDescription =
    "Forestall acts on memory pressure before the Linux OOM killer does.\n"
    "Without a subcommand it runs the agent.";

constexpr const char* kFooter =
    "`forestall SUBCOMMAND --help` lists the options of a subcommand.\n"
    "Exit codes: 0 success; 1 failure, or a check that does not hold; 2 invalid command line, "
    "configuration or input; 3 this host cannot be guarded; 4 another agent is running.\n"
    "See forestall(8).";

constexpr const char* kPodList = "Output of `kubectl get pods -o json`; - reads standard input";
const CLI::Range& pid_range() {
  static const CLI::Range range(1, std::numeric_limits<pid_t>::max(), "PID");
  return range;
}

// An option with a value; `form` is the value as help shows it.
template <typename Target>
CLI::Option* add_value(CLI::App& command, const char* names, Target& target, const char* form,
                       const char* help) {
  return command.add_option(names, target, help)->option_text(form);
}

// CLI11's own message for a set of words is "Check xml value in {text,json}".
std::function<std::string(const std::string&)> one_of(const std::vector<std::string>& words) {
  return [words](const std::string& word) -> std::string {
    if (std::find(words.begin(), words.end(), word) != words.end()) return {};
    return "unknown value '" + word + "'; use one of: " + CLI::detail::join(words, ", ");
  };
}

// std::strtoull reads "-1" as the largest number.
std::function<std::string(const std::string&)> number_from(std::uint64_t least) {
  return [least](const std::string& word) -> std::string {
    const auto number = parse_u64(word);
    if (number && *number >= least) return {};
    return "invalid number '" + word + "'; use a whole number from " + std::to_string(least);
  };
}

// -o is the output format in most subcommands, but names a file in `record`.
std::string not_a_format(const std::string& file) {
  if (file != "text" && file != "json") return {};
  return "'" + file + "' is a format, and -o names a file here; set the format with --output " +
         file + ", or write ./" + file;
}

std::string not_text(const std::string& file) {
  if (file != "text") return {};
  return "a report has no text format; use one of: " + CLI::detail::join(report_formats(), ", ") +
         "; for a file, write ./text";
}

// An option that takes one of `words`; `set` gets the index of the word.
CLI::Option* add_choice(CLI::App& command, const char* names, const std::vector<std::string>& words,
                        const std::function<void(std::size_t)>& set, const char* help) {
  const auto find = [words, set](const std::string& word) {
    set(static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin()));
  };
  return command.add_option_function<std::string>(names, find, help)
      ->check(one_of(words))
      ->option_text(CLI::detail::join(words, "|"));
}

// --- options that several subcommands have ------------------------------------------------------

CLI::Option* add_output(CLI::App& command, Options& options, const char* names) {
  return add_choice(
      command, names, {"text", "json"},
      [&options](std::size_t i) {
        options.output = i == 0 ? OutputFormat::text : OutputFormat::json;
      },
      "Output format (default: text)");
}

void add_agent_address(CLI::App& command, Options& options) {
  add_value(command, "--run-dir", options.run_directory, "DIRECTORY",
            "Run directory of the agent, with its socket forestall.sock (default: /run/forestall)");
  add_value(command, "--socket", options.socket, "PATH",
            "Socket of the agent's gRPC API (apiSocket), if it is not in the run directory");
}

// All features, for shell completions.
std::string feature_words() {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < kFeatureCount; ++i) words.emplace_back(to_string(feature_at(i)));
  return CLI::detail::join(words, "|");
}

void add_host(CLI::App& command, Options& options) {
  constexpr const char* kGroup = "Host";
  add_value(command, "--disable-feature", options.disabled, "NAME",
            "Do not use a kernel feature, by its name in `doctor`; may be repeated")
      ->type_name(feature_words())
      ->group(kGroup);
  add_value(command, "--cgroup-mount", options.cgroup_mount, "PATH",
            "Mount point of the host's cgroup filesystem (default: /sys/fs/cgroup)")
      ->group(kGroup);
}

void add_config(CLI::App& command, Options& options) {
  constexpr const char* kGroup = "Configuration";
  add_value(command, "-c,--config", options.config, "FILE",
            "Configuration file (default: /etc/forestall/config.yaml if it exists, else built in)")
      ->group(kGroup);
  add_value(command, "--kubelet-config", options.kubelet_config, "FILE",
            "KubeletConfiguration file; its eviction settings apply where the configuration file "
            "has none")
      ->group(kGroup);
}

void add_kubelet_flags(CLI::App& command, Options& options) {
  for (const intake::KubeletFlag& flag : intake::kubelet_flags()) {
    const auto keep = [&options, &flag](const std::string& value) {
      options.kubelet_flags[flag.name].push_back(value);
    };
    // On every parse: a repeated flag adds to its earlier values.
    CLI::Option* option =
        command.add_option_function<std::string>("--" + std::string(flag.name), keep, flag.help);
    option->trigger_on_parse()->option_text(flag.form)->group("Kubelet flags (override the files)");
    if (flag.valueless) option->expected(0, 1)->default_str("true");
  }
}

// --- guard --------------------------------------------------------------------------------------

void describe_agent(CLI::App& command, CommandLine& line) {
  command.add_flag("--dry-run", line.options.dry_run, "Decide and log, but send no signals");
  add_value(command, "--oomd-config", line.options.oomd_config, "FILE",
            "Run the rulesets of oomd's configuration; SIGHUP reads it again");
  add_value(command, "--oomd-drop-in-dir", line.options.oomd_drop_in_dir, "DIRECTORY",
            "oomd's directory of drop-ins, with --oomd-config");
  add_value(command, "--run-dir", line.options.run_directory, "DIRECTORY",
            "Directory of the sockets and of the lock that excludes a second agent (default: "
            "/run/forestall)");
  command.add_flag("-v,--verbose", line.options.verbose,
                   "Log every evaluation, not only decisions");
  add_choice(
      command, "--log-format", {"text", "logfmt", "json"},
      [&options = line.options](std::size_t i) {
        options.log_format = static_cast<exports::LogFormat>(i);
      },
      "Format of the log: short sentences, or all values for programs (default: text on a "
      "terminal, else logfmt)");
}

void describe_demo(CLI::App& command, CommandLine& line) {
  command.add_flag("-v,--verbose", line.options.verbose, "Show the agent's log as well");
}

void describe_status(CLI::App& command, CommandLine& line) {
  add_agent_address(command, line.options);
}

// --- inspect ------------------------------------------------------------------------------------

// Added after the options of `rank`, most of which --kernel excludes.
void add_kernel_rank(CLI::App& command, KernelRankOptions& options) {
  CLI::Option* kernel =
      command.add_flag("--kernel", options.enabled,
                       "Predict the victim of the kernel's OOM killer if the node, or --cgroup, "
                       "ran out of memory now");
  for (const char* other : {"--pods", "--stats", "--signal", "--fs-layout", "--limit", "--all"}) {
    kernel->excludes(command.get_option(other));
  }
  CLI::Option* nodes = add_value(command, "--nodes", options.nodes, "LIST",
                                 "Assume that the NUMA nodes of a cpuset run out, such as 0-1,3");
  CLI::Option* policy = add_value(command, "--memory-policy", options.memory_policy, "LIST",
                                  "Assume that the NUMA nodes of a memory policy run out");
  CLI::Option* allocating =
      add_value(command, "--allocating", options.allocating, "PID",
                "The allocating process: it counts even while it exits, and it is the victim if "
                "vm.oom_kill_allocating_task is set");
  allocating->check(pid_range());
  for (CLI::Option* each : {nodes, policy, allocating}) each->needs(kernel);
  for (CLI::Option* each : {nodes, policy}) each->excludes(command.get_option("--cgroup"));
  nodes->excludes(policy);
}

void describe_rank(CLI::App& command, CommandLine& line) {
  RankOptions& options = line.rank;
  add_value(command, "--cgroup", options.cgroup, "CGROUP",
            "Only workloads at or below this path of the memory hierarchy; with --kernel, the "
            "cgroup that runs out of memory");
  add_value(command, "--signal", options.signal, "SIGNAL",
            "The signal assumed to be below its threshold (default: memory.available)");
  CLI::Option* pods = add_value(command, "--pods", options.pods, "FILE",
                                "Rank these pods, not this host's workloads: output of `kubectl "
                                "get pods -o json`; - reads standard input");
  CLI::Option* stats = add_value(command, "--stats", options.stats, "FILE",
                                 "Statistics of --pods: output of the kubelet's /stats/summary");
  pods->needs(stats);
  stats->needs(pods);
  add_value(command, "--fs-layout", options.fs_layout, "single|imagefs|split",
            "Filesystems of images and writable layers (default: from the statistics, else "
            "single)");
  add_value(command, "--growth-over", options.growth_over, "DURATION",
            "Measure the growth of this host's workloads for this time and show it")
      ->excludes(pods);
  add_value(command, "-n,--limit", options.limit, "N",
            "Report the first N workloads of this host; 0 reports all (default: 0)")
      ->check(number_from(0))
      ->excludes(pods);
  command
      .add_flag("--all", options.with_empty,
                "Show workloads without processes too, as JSON always does")
      ->excludes(pods);
  add_kernel_rank(command, options.kernel);
}

void describe_score(CLI::App& command, CommandLine& line) {
  CLI::Option* pids =
      add_value(command, "pid", line.score.pids, "",
                "Show how the scores of these processes are computed (default: a table of all "
                "eligible processes, the highest score first)");
  pids->check(pid_range());
  add_value(command, "-n,--limit", line.score.limit, "N",
            "Rows of the table; 0 shows all (default: 20 as text, all as JSON)")
      ->check(number_from(0))
      ->excludes(pids);
}

void describe_cluster(CLI::App& command, CommandLine& line) {
  add_cluster_options(command, line.cluster);
  add_agent_address(command, line.options);
}

void describe_top(CLI::App& command, CommandLine& line) {
  TopOptions& top = line.top;
  CLI::Option* once = command.add_flag("--once", top.once, "Print one sample and exit");
  add_output(command, line.options, "-o,--output")->needs(once);
  add_value(command, "--interval", top.interval, "DURATION",
            "Time between two samples, 100ms to 1m (default: 1s); with --once, the time over which "
            "pressure is measured");
  add_value(command, "--ranking", top.ranking, "kubelet|kernel|kubelet+growth",
            "Rank by this order (default: the configuration's)");
  add_value(command, "--color", top.color, "auto|always|never",
            "Use the terminal's colors; auto disables them if NO_COLOR is set (default: auto)")
      ->check(one_of({"auto", "always", "never"}));
  command.add_flag("--ascii", top.ascii, "Draw with ASCII characters only");
  command.add_flag("--no-mouse", top.no_mouse, "Do not capture the mouse");
  command.add_flag("--no-agent", top.without_agent, "Do not connect to a running agent");
  add_agent_address(command, line.options);
}

void describe_events(CLI::App& command, CommandLine& line) {
  EventsOptions& events = line.events;
  add_value(command, "recording", events.path, "",
            "A recording, or the directory of an agent's recordings (default: those of the running "
            "agent)");
  add_value(command, "--since", events.since, "TIME",
            "Only events from this time on: before now (10m, 2h) or UTC (2025-03-14T10:11:12Z, "
            "'2025-03-14 10:11')");
  CLI::Option* until =
      add_value(command, "--until", events.until, "TIME", "Only events up to this time");
  static const std::string kKinds =
      "Only these kinds: " + CLI::detail::join(event_kinds(), ", ") + " (default: all)";
  add_value(command, "--kind", events.kinds, "LIST", kKinds.c_str())
      ->type_name(CLI::detail::join(event_kinds(), "|"));
  add_value(command, "-n,--limit", events.limit, "N",
            "Only the last N events (default: all; with --follow but without --since, 10)")
      ->check(number_from(1));
  command
      .add_flag("-f,--follow", events.follow,
                "Continue with what is recorded from now on, until interrupted")
      ->excludes(until);
  add_agent_address(command, line.options);
}

// --- offline ------------------------------------------------------------------------------------

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

// --- record and trace ---------------------------------------------------------------------------

void describe_trace(CLI::App& command, CommandLine& line) {
  trace::TraceOptions& trace = line.trace;
  add_value(command, "--cgroup", trace.cgroups, "GLOB",
            "Only cgroups whose path in the memory hierarchy matches, and their descendants; may "
            "be repeated");
  add_value(command, "--pod", trace.pods, "POD",
            "Only this pod, by its UID, or by a name or namespace/name from the configuration; "
            "may be repeated");
  add_value(command, "--kind", trace.kinds, "LIST",
            "Only these kinds of events: memcg-reclaim, direct-reclaim, kswapd, stall, compaction, "
            "throttled, oom, pressure, usage, reclaim-count, agent, cgroup; reclaim for the first "
            "three, or all");
  add_value(command, "--min", trace.shortest, "DURATION",
            "Only events that lasted at least this long, such as 1ms");
  command.add_flag("--begins", trace.begins, "Show the begin of an event as well as its end");
  add_value(command, "--summary", trace.summary, "DURATION",
            "Instead of events, print sums and histograms for each window of this length");
  add_value(command, "--top", trace.top, "N", "Cgroups in a summary (default: 10)")
      ->check(number_from(1));
  add_value(command, "--duration", trace.duration, "DURATION", "Stop after this time");
  add_value(command, "--count", trace.count, "N", "Stop after this many events")
      ->check(number_from(1));
  add_value(command, "--buffer", trace.buffer, "AMOUNT",
            "Size of the BPF ring buffer (default: 16Mi)");
  add_value(command, "--color", trace.color, "auto|always|never", "Use colors (default: auto)");
  add_value(command, "-o,--output", trace.format, "text|json|pb",
            "text, one JSON object per line, or length-prefixed forestall.v1.Event messages "
            "(default: text)");
  command.add_flag("--no-agent", trace.without_agent, "Do not connect to a running agent");
  add_agent_address(command, line.options);
}

void describe_record(CLI::App& command, CommandLine& line) {
  RecordOptions& options = line.record;
  add_value(command, "-o,--out", options.file, "FILE", "Output file")
      ->required()
      ->check(not_a_format);
  command.add_flag("-f,--force", options.force, "Overwrite an existing file");
  add_value(command, "--duration", options.duration, "DURATION",
            "Stop after this time (default: at Ctrl-C)");
  add_value(command, "--cgroup", options.cgroups, "GLOB",
            "Record matching cgroups as workloads, in addition to pods and the configuration's "
            "workloads; may be repeated");
}

void describe_completion(CLI::App& command, CommandLine& line) {
  add_choice(
      command, "shell", shells(),
      [&line](std::size_t i) { line.completion.shell = static_cast<Shell>(i); },
      "The shell whose script is printed; an installation has the scripts of all three")
      ->required();
}

// --- all subcommands ----------------------------------------------------------------------------

// What a subcommand has besides its own options.
enum Shared : unsigned {
  kNone = 0,
  kOutput = 1,         // -o, --output
  kLongOutput = 2,     // --output, where -o names a file
  kHost = 4,           // --disable-feature, --cgroup-mount
  kConfig = 8,         // --config, --kubelet-config
  kKubeletFlags = 16,  // overrides of thresholds and reservations
};

struct Row {
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
constexpr const char* kInspect = "Inspect";
constexpr const char* kOffline = "Offline";
constexpr const char* kRecordAndTrace = "Record and trace";
constexpr const char* kHelp = "Help";

constexpr Row kRows[] = {
    {Subcommand::agent, kGuard, "agent", kLive, describe_agent, "Guard this host (the default)"},
    {Subcommand::demo, kGuard, "demo", kOutput | kHost, describe_demo,
     "Leak memory in a scratch cgroup and watch the agent evict it"},
    {Subcommand::doctor, kGuard, "doctor", kOutput | kConfig | kHost, nullptr,
     "Check which kernel features this host has and which are missing"},
    {Subcommand::status, kGuard, "status", kOutput, describe_status,
     "Show the state of the running agent"},
    {Subcommand::cluster, kGuard, "cluster", kNone, describe_cluster,
     "Give the running agent the pods of a Kubernetes API server"},
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
    {Subcommand::rebalance, kOffline, "rebalance", kOutput, describe_rebalance,
     "Plan which pods to move from their nodes, by a DeschedulerPolicy"},
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
    {Subcommand::completion, kHelp, "completion", kNone, describe_completion,
     "Print the completions of a shell"},
    {Subcommand::version, kHelp, "version", kOutput, nullptr, "Print the version"},
};

void add_subcommand(CLI::App& app, const Row& row, CommandLine& line) {
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

// --- parsing ------------------------------------------------------------------------------------

// `help` is another word for the option. It is a subcommand of CLI11 as well, so that help lists it
// and further arguments are refused.
constexpr const char* kHelpAlias = "help";

std::vector<std::string> without_alias(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != kHelpAlias) return arguments;
  if (arguments.size() == 1) return {"--help"};
  if (arguments.size() == 2 && !arguments[1].starts_with('-')) return {arguments[1], "--help"};
  return arguments;
}

// Whether the first argument is neither an option nor a subcommand; then prints an error.
bool refuses_subcommand(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return false;
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  names.emplace_back(kHelpAlias);
  if (std::find(names.begin(), names.end(), arguments[0]) != names.end()) return false;
  const auto near = messages::nearest_word(arguments[0], names);
  std::fprintf(stderr, "forestall: unknown subcommand '%s'; %s`forestall --help` lists all\n",
               printable(arguments[0]).c_str(),
               near ? ("did you mean '" + *near + "'? ").c_str() : "");
  return true;
}

}  // namespace

std::optional<int> parse_command_line(const std::vector<std::string>& given, CommandLine& line) {
  const std::vector<std::string> arguments = without_alias(given);
  if (refuses_subcommand(arguments)) return kExitUsage;
  CLI::App app(kDescription, "forestall");
  set_help_format(app);
  app.failure_message(
      [](const CLI::App* all, const CLI::Error& failure) { return command_error(*all, failure); });
  app.footer(kFooter);
  app.set_version_flag("--version", "forestall " FORESTALL_VERSION, "Print the version and exit");
  app.require_subcommand(0, 1);
  for (const Row& row : kRows) add_subcommand(app, row, line);
  app.add_subcommand(kHelpAlias, "Show the help of a subcommand: forestall help rank")
      ->group(kHelp);
  try {
    app.parse(reversed(arguments));
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? kExitOk : kExitUsage;
  }
  if (line.subcommand == Subcommand::completion) line.completion.commands = command_tree(app);
  return std::nullopt;
}

}  // namespace forestall::cli
