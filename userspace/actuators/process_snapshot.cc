// SPDX-License-Identifier: Apache-2.0
#include "actuators/process_snapshot.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "actuators/members.h"

namespace forestall::actuators {
namespace {

Result<Members> list(const kernel::CgroupDir& cgroup, const NeverKill& never_kill,
                     std::optional<pid_t> only, const ProcessLister& lister,
                     ProcessSnapshot& snapshot) {
  auto members = TRY(members_of(cgroup, never_kill, lister));
  if (only) std::erase_if(members.present, [&](pid_t pid) { return pid != *only; });
  snapshot.present = members.present;
  snapshot.unlisted = members.unlisted;
  return members;
}

void refuse(ProcessSnapshot& snapshot, pid_t pid, std::string_view why) {
  ++snapshot.refused;
  if (snapshot.refusal) return;
  snapshot.refusal =
      Error{EPERM, "refused: process " + std::to_string(pid) + " " + std::string(why)};
}

void open_one(ProcessSnapshot& snapshot, const NeverKill& never_kill, pid_t pid) {
  auto process = kernel::ProcessRef::open(pid);
  if (!process.ok()) {
    // It exited between the list and the pidfd; its memory is being freed.
    if (process.error().code == ESRCH) return;
    ++snapshot.unpinned;
    if (!snapshot.failure) snapshot.failure = process.error();
    return;
  }
  const auto why = never_kill.why_not(process->id(), process->kernel_thread());
  if (!why.empty()) return refuse(snapshot, pid, why);
  snapshot.found.push_back(std::move(*process));
}

void count_one(ProcessSnapshot& snapshot, const NeverKill& never_kill, pid_t pid) {
  const auto stat = kernel::read_process_stat(pid);
  if (!stat.ok()) return;
  const auto why = never_kill.why_not({pid, stat->start_ticks}, stat->kernel_thread);
  if (!why.empty()) refuse(snapshot, pid, why);
}

bool still_unreaped(const kernel::ProcessRef& process) {
  const auto signalled = process.send_signal(0);
  return signalled.ok() || signalled.error().code == EPERM;
}

}  // namespace

std::optional<Error> why_incomplete(const ProcessSnapshot& snapshot) {
  if (snapshot.refusal) return snapshot.refusal;
  return snapshot.failure ? snapshot.failure : snapshot.unlisted;
}

Result<ProcessSnapshot> take_process_snapshot(const kernel::CgroupDir& cgroup,
                                              const NeverKill& never_kill,
                                              std::span<const pid_t> known, Pinning pinning,
                                              std::optional<pid_t> only,
                                              const ProcessLister& lister) {
  ProcessSnapshot snapshot;
  Members members = TRY(list(cgroup, never_kill, only, lister, snapshot));
  std::uint32_t unknown = 0;
  for (const pid_t pid : snapshot.present) {
    if (std::ranges::binary_search(known, pid)) continue;
    ++unknown;
    if (std::ranges::binary_search(members.protected_pids, pid)) {
      refuse(snapshot, pid, "has a thread in a protected cgroup");
    } else if (pinning == Pinning::by_pidfd) {
      open_one(snapshot, never_kill, pid);
    } else {
      count_one(snapshot, never_kill, pid);
    }
  }
  const bool all_known =
      pinning == Pinning::none || unknown == snapshot.refused + snapshot.unpinned;
  snapshot.quiet = all_known && !snapshot.unlisted;
  if (all_known) return snapshot;
  members = TRY(list(cgroup, never_kill, only, lister, snapshot));
  std::erase_if(snapshot.found, [&](const kernel::ProcessRef& process) {
    return !members.may_be_signalled(process.id().pid) || !still_unreaped(process);
  });
  return snapshot;
}

}  // namespace forestall::actuators
