// SPDX-License-Identifier: Apache-2.0
// A kill by pinned processes: SIGKILL after one read of the list, everything else afterwards.
#include <signal.h>

#include <algorithm>

#include "actuators/victim.h"

namespace forestall::actuators {

// False, without effect, if no pinned process is left; the caller then kills the ordinary way.
bool Victim::kill_pinned() {
  const auto members = pinned_->members();
  if (!members.ok()) return false;
  Bytes usage = outcome_.usage_before;
  if (pinned_->meter() != nullptr) usage = pinned_->meter()->read().optional().value_or(usage);
  std::vector<const kernel::ProcessRef*> reached;
  reached.reserve(pinned_->processes().size());
  std::optional<Error> failure;
  for (const kernel::ProcessRef& process : pinned_->processes()) {
    // Listed just now and still reachable, so it is in the cgroup (process_snapshot.h).
    if (!members->may_be_signalled(process.id().pid)) continue;
    const auto sent = process.send_signal(SIGKILL);
    if (sent.ok()) {
      if (reached.empty()) outcome_.signalled = context_.clock.now();
      reached.push_back(&process);
    } else if (sent.error().code != ESRCH && !failure) {
      failure = sent.error();
    }
  }
  if (reached.empty()) return false;
  dir_ = pinned_->directory();
  meter_ = pinned_->meter();
  outcome_.usage_before = lowest_ = usage;
  attempt(Rung::verify);
  take_over(reached);
  Attempt& sent = attempt(Rung::sigkill);
  sent.processes = outcome_.processes = static_cast<std::uint32_t>(reached.size());
  sent.failure = std::move(failure);
  follow_up(members->present);
  return true;
}

// Each process gets a descriptor owned by the victim. If that fails (no descriptors left), the
// process dies but is not reaped, and its exit shows only in the cgroup.
void Victim::take_over(std::span<const kernel::ProcessRef* const> reached) {
  for (const kernel::ProcessRef* process : reached) {
    auto copy = process->copy();
    if (!copy.ok()) continue;
    const pid_t pid = process->id().pid;
    held_.push_back({std::move(*copy), pid, Reaping::wanted, true});
    ++alive_;
  }
  attempt(Rung::pidfds).processes = static_cast<std::uint32_t>(reached.size());
}

// A process leaves the list of the cgroup when its end begins, before it frees its memory.
void Victim::complete(const Signalled& signalled) {
  signalled_by_other_ = signalled;
  outcome_.signalled = signalled.at;
  begin(Duration::zero());
  // Its cgroup is gone already, and so are its processes.
  const bool gone = removed_ && outcome_.state == KillState::failed;
  if (gone) outcome_.exited = outcome_.began;
  add(signalled, outcome_);
  if (gone) outcome_.freed = outcome_.usage_before;
}

// No process is listed any more.
void Victim::await_end() {
  outcome_.state = KillState::in_flight;
  if (pinned_) adopt_dying();
  reap(0);
  open_twin({}, Twin::same);
  watch(0);
  exit_unseen_ = alive_ == 0 && !events_;
  add(*signalled_by_other_, outcome_);
  check();
}

// Of the pinned processes those whose end has begun. The others have been moved away, or the kill
// did not reach them.
void Victim::adopt_dying() {
  std::vector<const kernel::ProcessRef*> dying;
  for (const kernel::ProcessRef& process : pinned_->processes()) {
    const auto stat = kernel::read_process_stat(process.id().pid);
    // The pid is its own while the pidfd shows no exit.
    if (stat.ok() && stat->exiting && !process.exited()) dying.push_back(&process);
  }
  take_over(dying);
}

// Signals the processes that were not pinned.
void Victim::follow_up(const std::vector<pid_t>& present) {
  outcome_.state = KillState::in_flight;
  reap(0);
  watch(0);
  auto snapshot = list_processes();
  if (!snapshot.ok()) {
    removed_ = true;
    return check();
  }
  Attempt& pidfds = attempt(Rung::pidfds);
  pidfds.failure = why_incomplete(*snapshot);
  const std::size_t from = admit(*snapshot);
  if (from < held_.size()) {
    watch(from);
    (void)signal_processes(from, SIGKILL);
    reap(from);
  }
  if (snapshot->refused == 0 && !pinned_->has_never_killed()) {
    // Processes present before the signal, and those found after it.
    std::vector<pid_t> own = present;
    own.insert(own.end(), snapshot->present.begin(), snapshot->present.end());
    std::ranges::sort(own);
    open_twin(own, Twin::within);
    queue_cgroup_kill();
  }
  sweep();
  check();
}

void add(const Signalled& signalled, Outcome& outcome) {
  outcome.signalled = std::min(outcome.signalled.value_or(signalled.at), signalled.at);
  outcome.processes = std::max(outcome.processes, signalled.processes);
  // Memory that came back before our first read was also freed by that kill.
  // `signalled.usage_before` may be much older, and a victim grows.
  const Bytes before = std::max(signalled.usage_before, outcome.usage_before);
  outcome.freed += before - outcome.usage_before;
  outcome.usage_before = before;
  // It was killed by that part of the agent, and nothing was left for the ladder.
  if (outcome.state != KillState::failed || !outcome.exited) return;
  outcome.state = KillState::released;
  outcome.released = outcome.exited;
  for (Attempt& each : outcome.attempts) each.failure.reset();
}

}  // namespace forestall::actuators
