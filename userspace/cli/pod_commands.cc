// SPDX-License-Identifier: Apache-2.0
#include "cli/pod_commands.h"

#include <CLI/CLI.hpp>

namespace forestall::cli {

void add_rank_options(CLI::App& command, RankOptions& options) {
  command.add_option("--cgroup", options.cgroup,
                     "Only workloads at or below this path of the memory hierarchy; with --kernel "
                     "the one that runs out");
  command.add_option("--signal", options.signal,
                     "The signal that is taken to be met (default: memory.available)");
  CLI::Option* pods = command.add_option(
      "--pods", options.pods,
      "Rank these pods, not this host's: what `kubectl get pods -o json` prints (- is standard "
      "input)");
  CLI::Option* stats = command.add_option(
      "--stats", options.stats, "Their statistics: what the kubelet's /stats/summary prints");
  pods->needs(stats);
  stats->needs(pods);
  command
      .add_option("--fs-layout", options.fs_layout,
                  "Where images and writable layers lie (default: as the statistics show it, else "
                  "single)")
      ->option_text("single|imagefs|split");
  command
      .add_option("--growth-over", options.growth_over,
                  "Watch this host's workloads for that long and show by how much each grew")
      ->option_text("DURATION")
      ->excludes(pods);
  add_kernel_rank_options(command, options.kernel);
}

void add_qos_options(CLI::App& command, QosOptions& options) {
  command
      .add_option("--pods", options.pods,
                  "What `kubectl get pods -o json` prints (- is standard input)")
      ->required();
  command
      .add_option("--memory-capacity", options.memory_capacity,
                  "MemTotal of the node, a quantity (16Gi)")
      ->required();
  command.add_option("--cgroup-root", options.cgroup_root, "The kubelet's cgroupRoot (default: /)");
  command
      .add_option("--runtime", options.runtime,
                  "Whose names containers' scopes have (default: containerd)")
      ->check(CLI::IsMember({"containerd", "crio"}))
      ->option_text("containerd|crio");
}

void add_admit_options(CLI::App& command, AdmitOptions& options) {
  command
      .add_option("--pods", options.pods,
                  "What `kubectl get pods -o json` prints (- is standard input)")
      ->required();
  command.add_option("--conditions", options.conditions,
                     "Conditions the node reports, separated by commas: MemoryPressure, "
                     "DiskPressure, PIDPressure (default: none)");
  CLI::Option* allocatable = command.add_option(
      "--allocatable", options.allocatable,
      "What the node gives to pods (cpu=4,memory=8Gi,ephemeral-storage=50Gi,pods=110; what is left "
      "out is without bound): show whom each critical pod would preempt");
  command
      .add_option("--running", options.running,
                  "Pods that are on the node already, in the form of --pods (default: none)")
      ->needs(allocatable);
}

}  // namespace forestall::cli
