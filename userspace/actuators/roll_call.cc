// SPDX-License-Identifier: Apache-2.0
#include "actuators/roll_call.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace forestall::actuators {
namespace {

Result<std::vector<pid_t>> list(const kernel::CgroupDir& cgroup, std::optional<pid_t> only) {
  auto pids = TRY(sorted_processes(cgroup));
  if (only) std::erase_if(pids, [&](pid_t pid) { return pid != *only; });
  return pids;
}

void refuse(RollCall& roll, pid_t pid, std::string_view why) {
  ++roll.refused;
  if (roll.refusal) return;
  roll.refusal = Error{EPERM, "refused: process " + std::to_string(pid) + " " + std::string(why)};
}

void open_one(RollCall& roll, const Untouchables& untouchables, pid_t pid) {
  auto process = kernel::ProcessRef::open(pid);
  if (!process.ok()) {
    // It exited between the list and the pidfd; its memory is being freed.
    if (process.error().code == ESRCH) return;
    ++roll.unheld;
    if (!roll.failure) roll.failure = process.error();
    return;
  }
  const auto why = untouchables.why_not(process->id(), process->kernel_thread());
  if (!why.empty()) return refuse(roll, pid, why);
  roll.found.push_back(std::move(*process));
}

void count_one(RollCall& roll, const Untouchables& untouchables, pid_t pid) {
  const auto stat = kernel::read_process_stat(pid);
  if (!stat.ok()) return;
  const auto why = untouchables.why_not({pid, stat->start_ticks}, stat->kernel_thread);
  if (!why.empty()) refuse(roll, pid, why);
}

bool still_unreaped(const kernel::ProcessRef& process) {
  const auto asked = process.send_signal(0);
  return asked.ok() || asked.error().code == EPERM;
}

}  // namespace

Result<std::vector<pid_t>> sorted_processes(const kernel::CgroupDir& cgroup) {
  auto pids = TRY(cgroup.processes_recursive());
  // A process that moves between two groups during the read is listed twice.
  std::ranges::sort(pids);
  pids.erase(std::ranges::unique(pids).begin(), pids.end());
  return pids;
}

Result<RollCall> call_roll(const kernel::CgroupDir& cgroup, const Untouchables& untouchables,
                           std::span<const pid_t> known, Hold hold, std::optional<pid_t> only) {
  RollCall roll;
  roll.present = TRY(list(cgroup, only));
  std::uint32_t unknown = 0;
  for (const pid_t pid : roll.present) {
    if (std::ranges::binary_search(known, pid)) continue;
    ++unknown;
    if (hold == Hold::by_pidfd) {
      open_one(roll, untouchables, pid);
    } else {
      count_one(roll, untouchables, pid);
    }
  }
  roll.quiet = hold == Hold::by_nothing || unknown == roll.refused + roll.unheld;
  if (roll.quiet) return roll;
  roll.present = TRY(list(cgroup, only));
  std::erase_if(roll.found, [&](const kernel::ProcessRef& process) {
    return !std::ranges::binary_search(roll.present, process.id().pid) || !still_unreaped(process);
  });
  return roll;
}

}  // namespace forestall::actuators
