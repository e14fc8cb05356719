// SPDX-License-Identifier: Apache-2.0
#include "actuators/untouchable.h"

#include <unistd.h>

#include <algorithm>

#include "kernel/process_ref.h"

namespace forestall::actuators {

namespace {
constexpr std::size_t kAncestorsMax = 256;  // bounds the walk if ancestors change during it
}

Untouchables Untouchables::of_this_process() {
  Untouchables found;
  pid_t pid = getpid();
  while (pid > 0 && found.line_.size() < kAncestorsMax) {
    const auto stat = kernel::read_process_stat(pid);
    if (!stat.ok()) break;
    found.line_.push_back({pid, stat->start_ticks});
    pid = stat->parent;
  }
  return found;
}

std::string_view Untouchables::why_not(ProcessId process, bool kernel_thread) const {
  if (process.pid == 1) return "is init";
  if (kernel_thread) return "is a kernel thread";
  if (process.pid == getpid()) return "is this agent";
  if (std::ranges::find(line_, process) != line_.end()) return "is an ancestor of this agent";
  return {};
}

}  // namespace forestall::actuators
