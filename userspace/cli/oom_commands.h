// SPDX-License-Identifier: Apache-2.0
// What `score` and `rank --kernel` are given on their command line.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace forestall::cli {

struct ScoreOptions {
  std::vector<pid_t> pids;           // empty: all that can be chosen
  std::optional<std::size_t> limit;  // how many of those; 0: all. Nothing: 20 for people
};

// Besides `--cgroup`, which RankOptions has.
struct KernelRankOptions {
  bool asked = false;
  std::string nodes;          // of a cpuset: "0-1,3"; empty: not given
  std::string memory_policy;  // the same of a memory policy
  std::optional<pid_t> allocating;
};

void add_score_options(CLI::App& command, ScoreOptions& options);
// After the options of `rank`, most of which it excludes.
void add_kernel_rank_options(CLI::App& command, KernelRankOptions& options);

}  // namespace forestall::cli
