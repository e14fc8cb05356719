// SPDX-License-Identifier: Apache-2.0
// Command line of the one binary.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/recording_commands.h"
#include "cli/report_options.h"
#include "cli/top_program.h"
#include "cli/trace_options.h"

namespace forestall::cli {
namespace {

constexpr const char* kDescription =
    "Forestall acts on memory pressure before the Linux OOM killer does.\n"
    "Without a subcommand it runs the agent. `forestall SUBCOMMAND --help` tells more.";

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 failed, or what was checked does not hold; 2 bad command line,\n"
    "configuration or input; 3 nothing can guard this host; 4 another agent is running.\n"
    "See forestall(8).";

void add_output_option(CLI::App& command, Options& options, const char* names) {
  static const std::map<std::string, OutputFormat> kFormats{{"text", OutputFormat::text},
                                                            {"json", OutputFormat::json}};
  command.add_option(names, options.output, "Output for people or for programs")
      ->transform(CLI::CheckedTransformer(kFormats))
      ->option_text("text|json");
}

void add_host_options(CLI::App& command, Options& options) {
  command.add_option("--disable-feature", options.disabled,
                     "Do without a kernel facility, by the name `doctor` lists it under; "
                     "may be given more than once");
  command.add_option(
      "--cgroup-mount", options.cgroup_mount,
      "Where the host's /sys/fs/cgroup is mounted (a DaemonSet mounts it elsewhere)");
}

struct Subcommands {
  CLI::App* agent;
  CLI::App* demo;
  CLI::App* doctor;
  CLI::App* status;
  CLI::App* signals;
  CLI::App* rank;
  CLI::App* score;
  CLI::App* qos;
  CLI::App* admit;
  CLI::App* check_config;
  CLI::App* plan;
  CLI::App* record;
  CLI::App* replay;
  CLI::App* diff;
  CLI::App* trace;
  CLI::App* report;
  CLI::App* top;
};

struct CommandOptions {
  RankOptions rank;
  ScoreOptions score;
  QosOptions qos;
  AdmitOptions admit;
  PlanOptions plan;
  RecordOptions record;
  ReplayOptions replay;
  DiffOptions diff;
  TraceOptions trace;
  ReportOptions report;
};

Subcommands add_subcommands(CLI::App& app, Options& options, CommandOptions& of) {
  Subcommands commands{};
  commands.agent = app.add_subcommand("agent", "Guard this host (the default)");
  commands.agent->add_flag("--dry-run", options.dry_run, "Decide and log, but signal nobody");
  commands.agent->add_option("--run-dir", options.run_directory,
                             "Directory of the lock that keeps a second agent away");
  commands.agent->add_flag("-v,--verbose", options.verbose, "Log every look, not just decisions");
  commands.demo = app.add_subcommand(
      "demo", "Leak memory in a scratch cgroup and watch the agent evict the leaker");
  commands.demo->add_flag("-v,--verbose", options.verbose, "Show the agent's log as well");
  commands.doctor = app.add_subcommand("doctor", "What this host offers, and what is missing");
  commands.status = app.add_subcommand("status", "What the running agent says of itself");
  commands.status->add_option("--run-dir", options.run_directory,
                              "The agent's, where it listens at forestall.sock");
  commands.status->add_option("--socket", options.socket,
                              "Where the agent serves gRPC (apiSocket), if that is elsewhere");
  commands.signals = app.add_subcommand("signals", "Current value of every signal and threshold");
  commands.rank = app.add_subcommand(
      "rank", "Workloads in the order they would be evicted; whom the kernel would kill");
  add_rank_options(*commands.rank, of.rank);
  commands.score = app.add_subcommand(
      "score",
      "Processes as the kernel's OOM killer scores them, and what their scores are made of");
  add_score_options(*commands.score, of.score);
  commands.qos = app.add_subcommand(
      "qos", "QoS class, requests, oom_score_adj and cgroups that follow from pods' declarations");
  add_qos_options(*commands.qos, of.qos);
  commands.admit = app.add_subcommand(
      "admit", "Whether pods are admitted under pressure, and whom critical ones would preempt");
  add_admit_options(*commands.admit, of.admit);
  commands.check_config =
      app.add_subcommand("check-config", "Check a configuration and show what it comes to");
  commands.plan = app.add_subcommand(
      "plan", "What reservations and thresholds leave for pods, and which to use");
  add_plan_options(*commands.plan, of.plan);
  commands.record = app.add_subcommand(
      "record", "Record what the agent would see and decide, without doing any of it");
  add_record_options(*commands.record, of.record);
  commands.replay = app.add_subcommand(
      "replay", "What would be decided on observations from a file, or on a recording");
  add_replay_options(*commands.replay, of.replay);
  commands.diff = app.add_subcommand("diff", "How two replays, or recordings, differ");
  add_diff_options(*commands.diff, of.diff);
  commands.trace = app.add_subcommand("trace", "Memory pressure as the kernel sees it, live");
  add_trace_options(*commands.trace, options, of.trace);
  commands.report = app.add_subcommand(
      "report", "A recording as a page that needs nothing else, or as what fits a ticket");
  add_report_options(*commands.report, of.report);
  for (CLI::App* command : app.get_subcommands({})) {
    if (command == commands.report) continue;
    // There -o is the file, as everywhere where a file is made; trace has one of its own.
    if (command != commands.trace)
      add_output_option(*command, options, command == commands.record ? "--output" : "-o,--output");
    // These answer from their input alone.
    if (command == commands.qos || command == commands.admit || command == commands.status ||
        command == commands.diff) {
      continue;
    }
    if (command != commands.check_config && command != commands.plan &&
        command != commands.replay) {
      add_host_options(*command, options);
    }
    if (command != commands.demo && command != commands.doctor && command != commands.score) {
      add_config_options(*command, options);
    }
  }
  // Has its options in a program of its own, which main() passes them on to.
  commands.top = app.add_subcommand("top", "The node's memory, live, and who would go first");
  return commands;
}

int dispatch(const Subcommands& commands, const Options& options, const CommandOptions& of) {
  if (commands.demo->parsed()) return run_demo(options);
  if (commands.doctor->parsed()) return run_doctor(options);
  if (commands.status->parsed()) return run_status(options);
  if (commands.signals->parsed()) return run_signals(options);
  if (commands.rank->parsed()) return run_rank(options, of.rank);
  if (commands.score->parsed()) return run_score(options, of.score);
  if (commands.qos->parsed()) return run_qos(options, of.qos);
  if (commands.admit->parsed()) return run_admit(options, of.admit);
  if (commands.check_config->parsed()) return run_check_config(options);
  if (commands.plan->parsed()) return run_plan(options, of.plan);
  if (commands.record->parsed()) return run_record(options, of.record);
  if (commands.replay->parsed()) return run_replay(options, of.replay);
  if (commands.diff->parsed()) return run_diff(options, of.diff);
  if (commands.trace->parsed()) return run_trace(options, of.trace);
  if (commands.report->parsed()) return run_report(of.report);
  if (commands.top->parsed()) return become_top({});
  return run_agent(options);
}

// The arguments, last one first, as CLI11 takes them. "--eviction-hard=" is kubelet's way to say
// "none at all"; CLI11 would take the next argument for its value, so it gets an empty one.
std::vector<std::string> reversed_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.starts_with("--") && argument.ends_with('=')) {
      argument.pop_back();
      arguments.emplace_back();
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

int run(int argc, char** argv) {
  Options options;
  CommandOptions of;
  CLI::App app(kDescription, "forestall");
  app.footer(kFooter);
  app.set_version_flag("--version", "forestall " FORESTALL_VERSION);
  app.require_subcommand(0, 1);
  const Subcommands commands = add_subcommands(app, options, of);
  try {
    app.parse(reversed_arguments(argc, argv));
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? kExitOk : kExitUsage;
  }
  return dispatch(commands, options, of);
}

}  // namespace
}  // namespace forestall::cli

int main(int argc, char** argv) {
  // Our own code has no exceptions; what the libraries throw (bad_alloc, a broken locale) ends here
  // with a line instead of an abort.
  try {
    if (argc > 1 && std::string_view(argv[1]) == "top") {
      return forestall::cli::become_top({argv + 2, argv + argc});
    }
    return forestall::cli::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "forestall: %s\n", failure.what());
    return forestall::cli::kExitFailed;
  }
}
