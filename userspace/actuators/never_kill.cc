// SPDX-License-Identifier: Apache-2.0
#include "actuators/never_kill.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/parse.h"
#include "kernel/process_ref.h"

namespace forestall::actuators {

namespace {
constexpr std::size_t kAncestorsMax = 256;  // bounds the walk if ancestors change during it
}

NeverKill NeverKill::of_this_process() {
  NeverKill found;
  pid_t pid = getpid();
  while (pid > 0 && found.line_.size() < kAncestorsMax) {
    const auto stat = kernel::read_process_stat(pid);
    if (!stat.ok()) break;
    found.line_.push_back({pid, stat->start_ticks});
    pid = stat->parent;
  }
  return found;
}

std::string_view NeverKill::why_not(ProcessId process, bool kernel_thread) const {
  if (process.pid == 1) return "is init";
  if (kernel_thread) return "is a kernel thread";
  if (process.pid == getpid()) return "is this agent";
  if (std::ranges::find(line_, process) != line_.end()) return "is an ancestor of this agent";
  return {};
}

bool NeverKill::has_any_of(std::span<const pid_t> pids) const {
  return std::ranges::any_of(pids, [&](pid_t pid) {
    return pid == 1 || std::ranges::find(line_, pid, &ProcessId::pid) != line_.end();
  });
}

bool NeverKill::any_within(const kernel::CgroupTree& tree, std::string_view path) const {
  return std::ranges::any_of(line_, [&](const ProcessId& process) {
    const auto place = tree.path_of(process.pid);
    if (place.ok()) return path_is_within(*place, path);
    return place.error().code != ENOENT && place.error().code != ESRCH;  // else it has exited
  });
}

}  // namespace forestall::actuators
