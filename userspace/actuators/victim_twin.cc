// SPDX-License-Identifier: Apache-2.0
// The cgroup.kill part of a kill: selects the directory, and writes the file.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "actuators/victim.h"
#include "kernel/cgroup_processes.h"

namespace forestall::actuators {
namespace {

// Signalled processes may be replaced: a service that is restarted in the same directory is not the
// victim any more. A fork appears within microseconds.
constexpr Duration kCgroupKillLatest = std::chrono::milliseconds(250);

}  // namespace

// The directory whose cgroup.kill kills exactly this victim. On v2 it is the victim's own. On a
// hybrid host it is the group of the same path in the v2 hierarchy, which may have other processes.
// It is used only if its processes are exactly the victim's, or a subset of them.
void Victim::open_twin(const std::vector<pid_t>& present, Twin wanted) {
  if (!usable(Feature::cgroup_kill)) return;
  auto twin = context_.tree.open_unified(outcome_.victim.path);
  if (!twin.ok()) return;
  if (context_.tree.hybrid()) {
    const auto members = kernel::list_processes(*twin);
    if (!members.ok() || members->failure || members->pids.empty()) return;
    if (!std::ranges::includes(present, members->pids)) return;
    if (wanted == Twin::same && members->pids != present) return;
  } else if (twin->id() != cgroup()) {
    return;
  }
  // A process that could not be listed could not be refused either.
  if (unlisted_ && context_.never_kill.any_within(context_.tree, outcome_.victim.path)) return;
  twin_ = std::move(*twin);
}

// The group was compared when the grace began; another process may have entered since.
void Victim::compare_twin_again() {
  twin_.reset();
  const auto now = list_processes();
  if (now.ok() && now->refused == 0 && !only_) open_twin(now->present, Twin::same);
}

// Writes it on this thread, where it may wait for the kernel's cgroup lock: only if no pidfd works.
bool Victim::kill_cgroup() {
  if (!twin_) return false;
  const auto written = twin_->write("cgroup.kill", "1");
  Attempt& killed = attempt(Rung::cgroup_kill);
  if (!written.ok()) {
    killed.failure = written.error();
    twin_.reset();
    return false;
  }
  killed.processes = alive_ + unheld_;
  outcome_.processes = killed.processes;
  outcome_.signalled = killed.at;
  return true;
}

// Queued before the jobs that free memory, and only once: the group was compared just now, and
// processes that enter later would not be compared.
void Victim::queue_cgroup_kill() {
  if (!twin_) return;
  auto file = twin_->open_file("cgroup.kill", O_WRONLY);
  if (!file.ok()) {
    attempt(Rung::cgroup_kill).failure = file.error();
    return;
  }
  const std::uint64_t ticket = EventKey{number_, EventKey::kCgroupKill}.pack();
  left_to_cgroup_kill_ = unheld_;
  cgroup_kill_queued_ = context_.reapers.submit(
      {ticket, std::move(*file), ReapCall::cgroup_kill, SystemClock().now() + kCgroupKillLatest});
  if (cgroup_kill_queued_) return;
  attempt(Rung::cgroup_kill).failure =
      Error{EAGAIN, "reaper queue full: later forks are killed by pidfd only"};
}

void Victim::on_cgroup_kill(const ReapReport& report) {
  cgroup_kill_queued_ = false;
  Attempt& killed = attempt(Rung::cgroup_kill);
  killed.failure.reset();
  if (report.result == ReapResult::failed) {
    killed.failure = Error{report.code, "cgroup.kill of " + outcome_.victim.path};
  } else if (report.result == ReapResult::freed) {
    killed.processes = left_to_cgroup_kill_;
    outcome_.processes += killed.processes;
    if (killed.processes > 0 && !outcome_.signalled) outcome_.signalled = killed.at;
  }
}

}  // namespace forestall::actuators
