// SPDX-License-Identifier: Apache-2.0
// Options of `forestall record`, `replay` and `diff`.
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

struct RecordOptions {
  std::string file;
  bool force = false;                // overwrite it
  std::string duration;              // empty: until interrupted
  std::vector<std::string> cgroups;  // globs of workloads in addition to the configuration's
};

struct ReplayOptions {
  std::string file;     // "-": standard input; a directory: the segments an agent recorded
  bool all = false;     // text: one line per decision
  std::string at;       // show only the evaluation in force at this time; empty: all
  std::string ranking;  // replaces the configuration's; empty: the configuration's
};

struct DiffOptions {
  std::string before;
  std::string after;
};

}  // namespace forestall::cli
