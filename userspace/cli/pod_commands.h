// SPDX-License-Identifier: Apache-2.0
// What the subcommands about pods are given on their command line, and the parts that they share.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/oom_commands.h"
#include "model/signal.h"

namespace CLI {
class App;
}

namespace forestall::cli {

struct RankOptions {
  std::string cgroup;       // only workloads at or below it; empty: all
  std::string signal;       // empty: memory.available
  std::string pods;         // what `kubectl get pods -o json` prints; empty: this host's workloads
  std::string stats;        // what /stats/summary prints; goes with `pods`
  std::string fs_layout;    // empty: from the statistics, or the host
  std::string growth_over;  // how long to watch workloads grow before ranking; empty: not at all
  KernelRankOptions
      kernel;  // asked: whom the kernel would choose, and nothing of the above but cgroup
};

struct QosOptions {
  std::string pods;
  std::string memory_capacity;  // quantity
  std::string cgroup_root = "/";
  std::string runtime = "containerd";
};

struct AdmitOptions {
  std::string pods;
  std::string conditions;   // "MemoryPressure,DiskPressure"
  std::string allocatable;  // "cpu=4,memory=8Gi,pods=110"; empty: no preemption
  std::string running;      // pods that are there already
};

void add_rank_options(CLI::App& command, RankOptions& options);
void add_qos_options(CLI::App& command, QosOptions& options);
void add_admit_options(CLI::App& command, AdmitOptions& options);

// Names the option and lists all signals if it is none.
[[nodiscard]] Result<Signal> signal_option(const std::string& text);

}  // namespace forestall::cli
