// SPDX-License-Identifier: Apache-2.0
// A reader of the OOM killer's lines in /dev/kmsg, independent of the product's reader, so that
// tests can compare the two.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::test {

// A line of the OOM killer that identifies a victim.
struct OomLine {
  enum class Kind {
    chosen,     // "oom-kill:constraint=…": the summary; the kernel suppresses most of a burst
    killed,     // "…: Killed process PID": one for each killed process, in the order of the kills
    whole,      // "Tasks in PATH are going to be killed due to memory.oom.group set"
    no_victim,  // "Out of memory and no killable processes..."
  };
  Kind kind = Kind::killed;
  pid_t pid = 0;           // chosen, killed
  std::string constraint;  // chosen: "CONSTRAINT_MEMCG", …
  std::string domain;      // chosen: oom_memcg, empty when the node is out of memory
  std::string path;        // chosen: task_memcg; whole: the group
  std::string text;
};

// Nothing if the line is not one of these.
[[nodiscard]] std::optional<OomLine> parse_oom_line(std::string_view message);

// Thread rule: one thread.
class KernelLog {
 public:
  // Starts at the end of the log. Throws if /dev/kmsg cannot be opened.
  KernelLog();
  // Each returns OOM killer lines since the last call, and throws if the kernel overwrote unread
  // records.

  // The lines that are readable now. The kernel prints after it has killed, so a line may be
  // missing although its process is dead.
  [[nodiscard]] std::vector<OomLine> take();
  // Waits for at least one line; empty after kPatience.
  [[nodiscard]] std::vector<OomLine> wait();

 private:
  UniqueFd fd_;
};

}  // namespace forestall::test
