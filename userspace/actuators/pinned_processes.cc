// SPDX-License-Identifier: Apache-2.0
#include "actuators/pinned_processes.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

namespace forestall::actuators {

Result<std::shared_ptr<const PinnedProcesses>> PinnedProcesses::take(const kernel::CgroupTree& tree,
                                                                     const NeverKill& never_kill,
                                                                     const Workload& workload,
                                                                     std::size_t processes_max) {
  if (workload.path == "/") return Error{EPERM, "the root cgroup holds the whole system"};
  auto directory = TRY(tree.open(workload.path));
  if (directory.id() != workload.cgroup) {
    return Error{ESTALE,
                 "cgroup " + workload.path + " was removed and created again since it was ranked"};
  }
  std::shared_ptr<PinnedProcesses> pinned(new PinnedProcesses(never_kill));
  pinned->directory_ = std::make_shared<const kernel::CgroupDir>(std::move(directory));
  if (auto meter = UsageMeter::open(*pinned->directory_, tree.version()); meter.ok()) {
    pinned->meter_ = std::make_shared<const UsageMeter>(std::move(*meter));
  }
  const Members members = TRY(pinned->members());
  pinned->present_ = members.present;
  pinned->has_refused_ = !members.protected_pids.empty();
  for (const pid_t pid : pinned->present_) {
    if (pinned->processes_.size() >= std::min(processes_max, kProcessesMax)) break;
    if (!members.may_be_signalled(pid)) continue;
    auto process = kernel::ProcessRef::open(pid);
    if (!process.ok()) continue;
    if (never_kill.why_not(process->id(), process->kernel_thread()).empty()) {
      pinned->processes_.push_back(std::move(*process));
    } else {
      pinned->has_refused_ = true;
    }
  }
  return std::shared_ptr<const PinnedProcesses>(std::move(pinned));
}

PinnedProcesses::Killed PinnedProcesses::kill(const Members& listed, const Clock& clock) const {
  Killed killed;
  for (const kernel::ProcessRef& process : processes_) {
    if (!listed.may_be_signalled(process.id().pid)) continue;
    const auto sent = process.send_signal(SIGKILL);
    if (sent.ok()) {
      if (killed.count == 0) killed.at = clock.now();
      killed.processes[killed.count++] = &process;
    } else if (sent.error().code != ESRCH && !killed.failure) {
      killed.failure = sent.error();
    }
  }
  return killed;
}

bool PinnedProcesses::is_current() const {
  const auto now = members();
  if (!now.ok() || now->present != present_) return false;
  return std::ranges::none_of(processes_, &kernel::ProcessRef::exited);
}

}  // namespace forestall::actuators
