// SPDX-License-Identifier: Apache-2.0
// What the kernel's OOM killer writes into its log, read from /dev/kmsg with plain code: what the
// product's own reader and predictor are held against.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::test {

// One line of the OOM killer's that says who.
struct OomLine {
  enum class Kind {
    chosen,  // "oom-kill:constraint=…": the summary, of which the kernel suppresses most in a burst
    killed,  // "…: Killed process PID": one for each process that is ended, in that order
    whole,   // "Tasks in PATH are going to be killed due to memory.oom.group set"
    nobody,  // "Out of memory and no killable processes..."
  };
  Kind kind = Kind::killed;
  pid_t pid = 0;           // chosen, killed
  std::string constraint;  // chosen: "CONSTRAINT_MEMCG", …
  std::string domain;      // chosen: oom_memcg, empty when the node is out of memory
  std::string path;        // chosen: task_memcg; whole: the group
  std::string text;
};

// Nothing when the line is of something else.
[[nodiscard]] std::optional<OomLine> parse_oom_line(std::string_view message);

// Thread rule: one thread.
class KernelLog {
 public:
  // From here on. Throws without /dev/kmsg.
  KernelLog();
  // The OOM killer's lines since the last call. Throws when the log was overwritten meanwhile.
  [[nodiscard]] std::vector<OomLine> take();

 private:
  UniqueFd fd_;
};

}  // namespace forestall::test
