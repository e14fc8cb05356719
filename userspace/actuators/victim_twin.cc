// SPDX-License-Identifier: Apache-2.0
// The part of a kill that is cgroup.kill: which directory it may be written to, and writing it.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "actuators/victim.h"

namespace forestall::actuators {
namespace {

// Processes that are signalled make room for others: a service that is started again in the same
// directory is not the victim any more. A fork is there within microseconds.
constexpr Duration kCgroupKillLatest = std::chrono::milliseconds(250);

}  // namespace

// The directory whose cgroup.kill kills this victim and nobody else. On v2 it is the victim's own.
// On a hybrid host it is a group of the same path in another hierarchy, which may hold anybody: it
// is used only when it holds exactly the same processes, or none but those.
void Victim::open_twin(const std::vector<pid_t>& present, Twin wanted) {
  if (!usable(Feature::cgroup_kill)) return;
  auto twin = means_.tree.open_unified(outcome_.victim.path);
  if (!twin.ok()) return;
  if (means_.tree.hybrid()) {
    const auto members = sorted_processes(*twin);
    if (!members.ok() || members->empty() || !std::ranges::includes(present, *members)) return;
    if (wanted == Twin::same && *members != present) return;
  } else if (twin->id() != cgroup()) {
    return;
  }
  twin_ = std::move(*twin);
}

// The twin was compared when the grace began; somebody else may have entered it since.
void Victim::compare_twin_again() {
  twin_.reset();
  const auto now = call_roll(*dir_, means_.untouchables, known(), hold(), only_);
  if (now.ok() && now->refused == 0 && !only_) open_twin(now->present, Twin::same);
}

// From here, where it may wait for the kernel's cgroup lock: only when no pidfd serves.
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

// Ahead of the jobs that free memory, and never a second time: the twin was compared just now, and
// whoever enters it later is not compared any more.
void Victim::queue_cgroup_kill() {
  if (!twin_) return;
  auto file = twin_->open_file("cgroup.kill", O_WRONLY);
  if (!file.ok()) {
    attempt(Rung::cgroup_kill).failure = file.error();
    return;
  }
  const std::uint64_t ticket = EventKey{number_, EventKey::kCgroupKill}.pack();
  left_to_cgroup_kill_ = unheld_;
  cgroup_kill_queued_ = means_.reapers.submit(
      {ticket, std::move(*file), ReapCall::cgroup_kill, SystemClock().now() + kCgroupKillLatest});
  if (cgroup_kill_queued_) return;
  attempt(Rung::cgroup_kill).failure =
      Error{EAGAIN, "reaper queue full: forks are chased by pidfd alone"};
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
