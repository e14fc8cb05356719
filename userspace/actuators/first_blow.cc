// SPDX-License-Identifier: Apache-2.0
#include "actuators/first_blow.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace forestall::actuators {
namespace {

Result<std::vector<kernel::ListedProcess>> list(const ProcessLister& lister, CgroupId cgroup,
                                                std::optional<pid_t> only) {
  auto listed = TRY(lister.list(cgroup));
  if (only) std::erase_if(listed, [&](const auto& each) { return each.pid != *only; });
  return listed;
}

std::vector<kernel::ProcessRef> open_all(const std::vector<kernel::ListedProcess>& listed,
                                         std::span<const pid_t> known) {
  std::vector<kernel::ProcessRef> opened;
  opened.reserve(std::min(listed.size(), kFirstBlowMax));
  for (const kernel::ListedProcess& each : listed) {
    if (opened.size() >= kFirstBlowMax) break;
    if (std::ranges::binary_search(known, each.pid)) continue;
    auto process = kernel::ProcessRef::open(each.pid);
    if (process.ok()) opened.push_back(std::move(*process));
  }
  return opened;
}

bool may_be_signalled(const kernel::ProcessRef& process,
                      const std::vector<kernel::ListedProcess>& listed, const ProcessLister& lister,
                      const NeverKill& never_kill) {
  const auto found =
      std::ranges::lower_bound(listed, process.id().pid, {}, &kernel::ListedProcess::pid);
  return found != listed.end() && found->pid == process.id().pid &&
         found->start_ticks == process.id().start_ticks &&
         !lister.may_be_protected(*found, never_kill) &&
         never_kill.why_not(process.id(), process.kernel_thread()).empty();
}

}  // namespace

FirstBlow strike_first(const ProcessLister& lister, const Workload& victim,
                       const NeverKill& never_kill, const Clock& clock,
                       std::span<const pid_t> known, std::optional<pid_t> only) {
  FirstBlow blow;
  const auto before = list(lister, victim.cgroup, only);
  if (!before.ok()) return blow;
  std::vector<kernel::ProcessRef> opened = open_all(*before, known);
  if (opened.empty()) return blow;
  const auto listed = list(lister, victim.cgroup, only);
  if (!listed.ok() || lister.may_be_renamed_to_protected(victim.path, never_kill)) return blow;
  blow.opened = clock.now();
  for (kernel::ProcessRef& process : opened) {
    if (!may_be_signalled(process, *listed, lister, never_kill)) continue;
    if (auto sent = process.send_signal(SIGKILL); !sent.ok()) {
      if (!blow.failure && sent.error().code != ESRCH) blow.failure = std::move(sent).error();
      continue;
    }
    if (!blow.at) blow.at = clock.now();
    blow.reached.push_back(std::move(process));
  }
  for (const kernel::ListedProcess& each : *listed) {
    blow.present.push_back(each.pid);
    blow.all_may_end = blow.all_may_end && !lister.may_be_protected(each, never_kill);
  }
  blow.all_may_end = blow.all_may_end && !never_kill.has_any_of(blow.present);
  return blow;
}

}  // namespace forestall::actuators
