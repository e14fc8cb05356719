// SPDX-License-Identifier: Apache-2.0
// Processes that are never signalled, whatever the decision: pid 1, kernel threads, this process
// and its ancestors. The policy protects whole cgroups; this is the last safeguard.
#pragma once

#include <string_view>
#include <vector>

#include "model/ids.h"

namespace forestall::actuators {

class Untouchables {
 public:
  // Reads the ancestors of this process. Once is enough: a parent that exits is replaced by one of
  // its own ancestors (kernel/exit.c find_new_reaper), so the list can only get shorter. The start
  // times distinguish an ancestor from a reused pid.
  static Untouchables of_this_process();

  // The reason why this process must not be signalled; empty if it may be.
  [[nodiscard]] std::string_view why_not(ProcessId process, bool kernel_thread) const;

 private:
  std::vector<ProcessId> line_;  // this process first
};

}  // namespace forestall::actuators
