// SPDX-License-Identifier: Apache-2.0
// Options of `forestall score` and `forestall rank --kernel`.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace forestall::cli {

struct ScoreOptions {
  std::vector<pid_t> pids;           // empty: all eligible processes
  std::optional<std::size_t> limit;  // rows of the table; 0: all; unset: 20 as text, all as JSON
};

// `--cgroup` is in RankOptions.
struct KernelRankOptions {
  bool enabled = false;       // --kernel
  std::string nodes;          // NUMA nodes of a cpuset: "0-1,3"; empty: not given
  std::string memory_policy;  // NUMA nodes of a memory policy, in the same form
  std::optional<pid_t> allocating;
};

}  // namespace forestall::cli
