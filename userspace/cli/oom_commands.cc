// SPDX-License-Identifier: Apache-2.0
#include "cli/oom_commands.h"

#include <CLI/CLI.hpp>
#include <limits>

namespace forestall::cli {
namespace {

const CLI::Range& pid_range() {
  static const CLI::Range range(1, std::numeric_limits<pid_t>::max(), "PID");
  return range;
}

}  // namespace

void add_score_options(CLI::App& command, ScoreOptions& options) {
  CLI::Option* pids =
      command
          .add_option("pid", options.pids,
                      "Processes to show with all that their points are made of (default: a table "
                      "of those the kernel could choose, its first choice first)")
          ->check(pid_range())
          ->option_text("PID ...");
  command
      .add_option("-n,--limit", options.limit,
                  "How many the table has; 0 is all (default: 20 as text, all as JSON)")
      ->option_text("N")
      ->excludes(pids);
}

void add_kernel_rank_options(CLI::App& command, KernelRankOptions& options) {
  CLI::Option* kernel =
      command.add_flag("--kernel", options.asked,
                       "Whom the kernel's OOM killer would choose if the node, or --cgroup, ran "
                       "out of memory now");
  for (const char* other : {"--pods", "--stats", "--signal", "--fs-layout"}) {
    kernel->excludes(command.get_option(other));
  }
  CLI::Option* nodes = command.add_option("--nodes", options.nodes,
                                          "The NUMA nodes of a cpuset run out: a list like 0-1,3");
  CLI::Option* policy = command.add_option("--memory-policy", options.memory_policy,
                                           "The NUMA nodes that a memory policy binds to run out");
  CLI::Option* allocating = command.add_option("--allocating", options.allocating,
                                               "Who allocates: counts while it dies, and for "
                                               "vm.oom_kill_allocating_task");
  for (CLI::Option* each : {nodes, policy, allocating}) each->needs(kernel);
  for (CLI::Option* each : {nodes, policy}) {
    each->option_text("LIST")->excludes(command.get_option("--cgroup"));
  }
  allocating->check(pid_range())->option_text("PID");
  nodes->excludes(policy);
}

}  // namespace forestall::cli
