// SPDX-License-Identifier: Apache-2.0
#include "actuators/newer_processes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace forestall::actuators {
namespace {

// fs/proc/array.c do_task_stat(): the start is in ticks of CLOCK_BOOTTIME, rounded down.
Duration since_boot(std::uint64_t start_ticks) {
  const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
  const auto ticks = static_cast<std::int64_t>(start_ticks);
  const auto second = std::chrono::nanoseconds(std::chrono::seconds(1)).count();
  return Duration(ticks / ticks_per_second * second +
                  ticks % ticks_per_second * (second / ticks_per_second));
}

bool started_after(pid_t pid, Duration boot_time) {
  const auto stat = kernel::read_process_stat(pid);
  if (!stat.ok()) return stat.error().code != ESRCH;
  return since_boot(stat->start_ticks) > boot_time;
}

}  // namespace

void NewerProcesses::set_kill(MonotonicTime signalled, Duration suspended_before,
                              MonotonicTime now) {
  if (now - signalled <= kForksWithin) return;
  last_fork_ = signalled.time_since_epoch() + suspended_before + kForksWithin;
}

void NewerProcesses::leave_out(ProcessSnapshot& snapshot) {
  if (!last_fork_) return;
  pids_.clear();
  std::ranges::copy_if(snapshot.present, std::back_inserter(pids_),
                       [&](pid_t pid) { return started_after(pid, *last_fork_); });
  if (pids_.empty()) return;
  std::erase_if(snapshot.found, [&](const kernel::ProcessRef& process) {
    return std::ranges::binary_search(pids_, process.id().pid);
  });
  std::erase_if(snapshot.present,
                [&](pid_t pid) { return std::ranges::binary_search(pids_, pid); });
  snapshot.refused += static_cast<std::uint32_t>(pids_.size());
  snapshot.refusal = Error{EPERM, "refused: the process started after the kill"};
}

}  // namespace forestall::actuators
