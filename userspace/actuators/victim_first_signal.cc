// SPDX-License-Identifier: Apache-2.0
// Kills whose SIGKILL comes before everything else: by a list of the kernel's, by pinned processes,
// and those that another part of the agent has signalled already.
#include "actuators/victim.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace forestall::actuators {

// False, without effect, if no process was signalled. A kill that follows another one is not begun
// here: it leaves out what has started since (newer_processes.h).
bool Victim::strike() {
  const bool usable = kill_.context.lister.exists() && kill_.usable(Feature::pidfd);
  if (!usable || (outcome_.victim.path == "/" && !only_)) return false;
  if (signalled_by_other_ || earlier_) return false;
  if (!strike_listed()) return false;
  outcome_.state = KillState::in_flight;
  follow_strike();
  check();
  return true;
}

// One more blow. False: no process was signalled.
bool Victim::strike_listed() {
  const VictimContext& context = kill_.context;
  FirstBlow blow = strike_first(context.lister, outcome_.victim, context.never_kill, context.clock,
                                processes_.known(), only_);
  if (!blow.at) return false;
  if (!outcome_.signalled) outcome_.signalled = blow.at;
  const auto count = static_cast<std::uint32_t>(blow.reached.size());
  // By its id; the path of a cgroup that is not held is verified after the signal.
  if (dir_) kill_.attempt(Rung::verify).at = blow.opened;
  Attempt& pidfds = kill_.attempt(Rung::pidfds);
  pidfds.at = blow.opened;
  pidfds.processes += count;
  Attempt& sigkill = kill_.attempt(Rung::sigkill);
  sigkill.at = *blow.at;
  sigkill.processes += count;
  if (blow.failure) sigkill.failure = std::move(blow.failure);
  outcome_.processes += count;
  processes_.add_signalled(std::move(blow.reached));
  struck_ = std::move(blow.present);
  all_struck_may_end_ = blow.all_may_end && struck_.size() > count;
  return true;
}

// Where the directory is not held and cannot be opened (no descriptor is left, or the cgroup was
// renamed), processes are signalled by list at each check, and no memory counts as freed.
void Victim::follow_strike() {
  const CgroupId cgroup = outcome_.victim.cgroup;
  const bool held = dir_ != nullptr;
  if (auto opened = open_directory(); !opened.ok()) {
    kill_.attempt(Rung::verify).failure = std::move(opened).error();
    auto left = kill_.context.lister.list(cgroup);
    if (left.ok() && left->empty()) left = kill_.context.lister.list(cgroup);  // kEmptyLists
    removed_ = !left.ok() && left.error().code == ENOENT;
    if (left.ok() && left->empty()) outcome_.exited = kill_.context.clock.now();
    if (left.ok() && !left->empty()) (void)strike_listed();
    processes_.reap(watched_from_);
    watch(watched_from_);
    watched_from_ = processes_.size();
    return;
  }
  if (!held) kill_.attempt(Rung::verify).failure.reset();
  const Bytes ranked = outcome_.usage_before;
  measure_before();
  // Of what it held at the ranking a part may be free again; it may also have grown since.
  outcome_.usage_before = lowest_ = std::max(ranked, outcome_.usage_before);
  if (all_struck_may_end_) kill_group_at_once(struck_);
  follow_up(struck_, /*some_are_spared=*/false);
}

// False, without effect, if no pinned process is left; the caller then kills the ordinary way.
bool Victim::kill_pinned() {
  const auto members = pinned_->members(kill_.context.lister);
  if (!members.ok()) return false;
  const VictimContext& context = kill_.context;
  if (context.lister.may_be_renamed_to_protected(outcome_.victim.path, context.never_kill)) {
    return false;
  }
  Bytes usage = outcome_.usage_before;
  if (pinned_->meter() != nullptr) usage = pinned_->meter()->read().optional().value_or(usage);
  auto sent = pinned_->kill(*members, kill_.context.clock);
  if (!sent.at) return false;
  outcome_.signalled = sent.at;
  dir_ = pinned_->directory();
  meter_ = pinned_->meter();
  outcome_.usage_before = lowest_ = usage;
  kill_.attempt(Rung::verify);
  take_over(sent.reached());
  Attempt& sigkill = kill_.attempt(Rung::sigkill);
  sigkill.processes = outcome_.processes = sent.count;
  sigkill.failure = std::move(sent.failure);
  const bool complete = !members->unlisted && members->protected_pids.empty();
  if (members->present.size() > sent.count && complete && !pinned_->has_refused()) {
    kill_group_at_once(members->present);
  }
  follow_up(members->present, pinned_->has_refused());
  check();
  return true;
}

// Opening the processes that were not signalled takes milliseconds if they are many; cgroup.kill
// reaches them meanwhile. REQUIRES: `present` are all members, and each of them may be ended. On a
// hybrid host the group has to be compared first (follow_up).
void Victim::kill_group_at_once(const std::vector<pid_t>& present) {
  if (kill_.context.tree.hybrid() || signalled_by_other_) return;
  if (kill_.context.never_kill.has_any_of(present)) return;
  select_group(present, CgroupKill::Match::same);
  cgroup_kill_.queue(0);
}

void Victim::take_over(std::span<const kernel::ProcessRef* const> reached) {
  processes_.add_signalled(reached);
  kill_.attempt(Rung::pidfds).processes = static_cast<std::uint32_t>(reached.size());
}

// A process leaves the list of the cgroup when its end begins, before it frees its memory.
void Victim::complete(const Signalled& signalled) {
  signalled_by_other_ = signalled;
  newer_.set_kill(signalled.at, kill_.context.suspended.before(signalled.at),
                  kill_.context.clock.now());
  outcome_.signalled = signalled.at;
  begin(Duration::zero());
  // Its cgroup is gone already, and so are its processes.
  const bool gone = removed_ && outcome_.state == KillState::failed;
  if (gone) outcome_.exited = outcome_.began;
  add(signalled, outcome_);
  if (gone) outcome_.freed = outcome_.usage_before;
  if (!newer_.pids().empty()) {
    kill_.attempt(Rung::pidfds).failure =
        Error{EPERM, "refused: the workload was started again after the kill"};
  }
}

// No process is listed any more.
void Victim::await_end() {
  outcome_.state = KillState::in_flight;
  if (pinned_) adopt_dying();
  processes_.reap(0);
  select_group({}, CgroupKill::Match::same);
  watch(0);
  without_pidfds_ = processes_.alive() == 0;
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

// Signals the other processes. `present` when the first ones were signalled, sorted.
// `some_are_spared`: cgroup.kill must not be used.
void Victim::follow_up(const std::vector<pid_t>& present, bool some_are_spared) {
  outcome_.state = KillState::in_flight;
  processes_.reap(watched_from_);
  watch(watched_from_);
  auto snapshot = list_processes();
  if (!snapshot.ok()) {
    removed_ = true;
    return;
  }
  if (auto why = why_incomplete(*snapshot)) kill_.attempt(Rung::pidfds).failure = std::move(why);
  const std::size_t from = admit(*snapshot);
  if (from < processes_.size()) {
    watch(from);
    (void)processes_.signal(from, SIGKILL);
    processes_.reap(from);
  }
  if (cgroup_kill_.queued() && (snapshot->refused > 0 || snapshot->unlisted)) {
    cgroup_kill_.withdraw();
  } else if (cgroup_kill_.queued()) {
    cgroup_kill_.note_unpinned(processes_.count_unknown(present));
  } else if (snapshot->refused == 0 && !some_are_spared) {
    // Processes present before the signal, and those found after it.
    std::vector<pid_t> own = present;
    own.insert(own.end(), snapshot->present.begin(), snapshot->present.end());
    std::ranges::sort(own);
    select_group(own, CgroupKill::Match::within);
    cgroup_kill_.queue(unpinned_);
  }
  sweep();
}

}  // namespace forestall::actuators
