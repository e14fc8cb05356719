// SPDX-License-Identifier: Apache-2.0
// Options of `forestall rank`, `qos` and `admit`.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/oom_commands.h"
#include "model/signal.h"

namespace forestall::cli {

struct RankOptions {
  std::string cgroup;        // only workloads at or below it; empty: all
  std::string signal;        // empty: memory.available
  std::string pods;          // output of `kubectl get pods -o json`; empty: this host's workloads
  std::string stats;         // output of the kubelet's /stats/summary; required with `pods`
  std::string fs_layout;     // empty: derived from the statistics, or from the host
  std::string growth_over;   // time over which growth is measured; empty: not measured
  std::size_t limit = 0;     // workloads of this host to report; 0: all
  bool with_empty = false;   // the text has workloads without processes too
  KernelRankOptions kernel;  // if `enabled`, only `cgroup` of the above applies
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
  std::string running;      // pods already on the node
};

// An unknown signal is an error that names --signal and lists all signals.
[[nodiscard]] Result<Signal> signal_option(const std::string& text);

}  // namespace forestall::cli
