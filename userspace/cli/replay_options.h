// SPDX-License-Identifier: Apache-2.0
// Options of `forestall record`, `replay` and `diff`.
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

struct RecordOptions {
  std::string file;
  bool force = false;                // overwrite it
  std::string duration;              // empty: until it is interrupted
  std::vector<std::string> cgroups;  // globs of workloads besides the configuration's
};

struct ReplayOptions {
  std::string file;     // "-": standard input; a directory: the segments of an agent's ring
  bool all = false;     // text: every decision in a line of its own
  std::string at;       // show the one look in force at this time; empty: all
  std::string ranking;  // in place of the configuration's; empty: that
};

struct DiffOptions {
  std::string before;
  std::string after;
};

}  // namespace forestall::cli
