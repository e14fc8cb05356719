// SPDX-License-Identifier: Apache-2.0
// Who is never signalled, whatever the decision says: pid 1, kernel threads, this process and its
// ancestors. The policy protects whole cgroups; this is the last line behind it.
#pragma once

#include <string_view>
#include <vector>

#include "model/ids.h"

namespace forestall::actuators {

class Untouchables {
 public:
  // Reads this process' line of ancestors. Once is enough: a parent that dies is replaced by one
  // of its own ancestors (kernel/exit.c find_new_reaper), so the line can only get shorter, and
  // the start times tell a reused pid from an ancestor.
  static Untouchables of_this_process();

  // Why this process must not be signalled, in words; empty when it may be.
  [[nodiscard]] std::string_view why_not(ProcessId process, bool kernel_thread) const;

 private:
  std::vector<ProcessId> line_;  // this process first
};

}  // namespace forestall::actuators
