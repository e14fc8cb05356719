// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "cli/command_line.h"
#include "cli/event_line.h"
#include "cli/option_forms.h"
#include "cli/shared_options.h"

namespace forestall::cli {
namespace {

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

}  // namespace

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

}  // namespace forestall::cli
