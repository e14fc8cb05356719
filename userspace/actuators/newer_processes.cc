// SPDX-License-Identifier: Apache-2.0
#include "actuators/newer_processes.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace forestall::actuators {
namespace {

// fs/proc/array.c do_task_stat(): the start is in ticks of CLOCK_BOOTTIME, rounded down.
Duration age_of(std::uint64_t start_ticks) {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
  const auto ticks = static_cast<std::int64_t>(start_ticks);
  const auto second = std::chrono::nanoseconds(std::chrono::seconds(1)).count();
  const std::int64_t started =
      ticks / ticks_per_second * second + ticks % ticks_per_second * (second / ticks_per_second);
  return std::chrono::nanoseconds(now.tv_sec * second + now.tv_nsec - started);
}

bool is_newer(pid_t pid, Duration since_kill) {
  const auto stat = kernel::read_process_stat(pid);
  if (!stat.ok()) return stat.error().code != ESRCH;
  return age_of(stat->start_ticks) + kForksWithin < since_kill;
}

}  // namespace

void NewerProcesses::set_kill(MonotonicTime signalled, MonotonicTime now) {
  if (now - signalled > kForksWithin) signalled_ = signalled;
}

void NewerProcesses::leave_out(ProcessSnapshot& snapshot, MonotonicTime now) {
  if (!signalled_) return;
  pids_.clear();
  std::ranges::copy_if(snapshot.present, std::back_inserter(pids_),
                       [&](pid_t pid) { return is_newer(pid, now - *signalled_); });
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
