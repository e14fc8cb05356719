// SPDX-License-Identifier: Apache-2.0
#include "actuators/victim.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace forestall::actuators {
namespace {

// Sweeps for late forks per call; a faster fork bomb is swept again from the loop.
constexpr int kSweepsPerCheck = 8;
// A process that moves between the kernel's lists while they are read can be missed by one list.
constexpr int kEmptyLists = 2;
// Interval of checks of a running kill: freeing pages raises no event.
constexpr Duration kCheckInterval = std::chrono::milliseconds(10);
constexpr Duration kUnsettledInterval = std::chrono::milliseconds(1);
// How often the memory of a victim of a dry run is read.
constexpr Duration kDryRunInterval = std::chrono::milliseconds(500);
constexpr Duration kStuckInterval = std::chrono::seconds(1);
// A pod may request any number of seconds; above this the sum of times would overflow.
constexpr Duration kGraceMax = std::chrono::hours(24 * 365);
// Release timeouts between the last exit and the end of a kill.
constexpr int kTimeoutsAfterExit = 8;

}  // namespace

Victim::Victim(const VictimContext& context, std::uint32_t number, const WorkloadSample& sample,
               const LadderOptions& options, std::optional<pid_t> only,
               std::shared_ptr<const PinnedProcesses> pinned)
    : kill_{context, number, options},
      only_(only),
      pinned_(std::move(pinned)),
      inactive_file_(sample.inactive_file.value_or(Bytes{0})),
      expected_(sample.working_set().value_or(Bytes{0})) {
  outcome_.victim = sample.workload;
  outcome_.usage_before = sample.usage.value_or(Bytes{0});
}

// ---- before the signal ----

void Victim::begin(Duration grace) {
  outcome_.began = checked_at_ = kill_.context.clock.now();
  deadline_ = outcome_.began + kill_.options.release_timeout;
  lowest_ = outcome_.usage_before;
  forget_at_ = outcome_.began + kForgetAfter;
  outcome_.dry_run = kill_.options.dry_run;
  outcome_.attempts.reserve(5);
  take_held();
  const bool at_once = grace <= Duration::zero() && !kill_.options.dry_run;
  if (at_once && ((pinned_ && kill_pinned()) || strike())) return;
  if (auto verified = verify(); !verified.ok()) return fail(Rung::verify, verified.error());
  kill_.attempt(Rung::verify).processes = 0;
  if (!open_processes()) return;
  if (kill_.options.dry_run) {
    processes_.clear();
    outcome_waits_ = true;
    return;
  }
  if (grace > Duration::zero() && request_exit(grace)) {
    watch(0);
    return check();
  }
  end_now();
}

void Victim::repeat(const KillProgress& earlier) {
  earlier_ = earlier;
  begin(Duration::zero());
}

void Victim::cut_grace(Duration grace) {
  if (outcome_.state != KillState::terminating) return;
  kill_at_ = std::min(*kill_at_, kill_.context.clock.now() + grace);
  check();
}

void Victim::take_held() {
  const auto held = kill_.context.held(outcome_.victim.cgroup);
  if (!held || held->directory->id() != outcome_.victim.cgroup) return;
  dir_ = held->directory;
  meter_ = std::make_shared<const UsageMeter>(held->usage);
}

// By its path, unless it is open already. That of a removed cgroup lists no process.
Result<void> Victim::open_directory() {
  if (dir_) return {};
  auto dir = TRY(kill_.context.tree.open(outcome_.victim.path));
  TRY(verify_id(dir.id()));
  dir_ = std::make_shared<const kernel::CgroupDir>(std::move(dir));
  return {};
}

Result<void> Victim::verify_id(CgroupId found) const {
  const Workload& victim = outcome_.victim;
  if (found == victim.cgroup) return {};
  return Error{ESTALE, "cgroup " + victim.path + " was removed and created again: inode " +
                           std::to_string(found.inode) + " is not the ranked " +
                           std::to_string(victim.cgroup.inode)};
}

// Of a held directory. On cgroup v1 a cgroup can be renamed, to a protected path too.
Result<void> Victim::verify_path() const {
  const kernel::CgroupTree& tree = kill_.context.tree;
  if (tree.version() == kernel::CgroupVersion::v2) return {};
  return verify_id(TRY(tree.id_at(outcome_.victim.path)));
}

Result<void> Victim::verify() {
  if (outcome_.victim.path == "/" && !only_) {
    return Error{EPERM, "refused: the root cgroup holds the whole system"};
  }
  if (auto opened = dir_ ? verify_path() : open_directory(); !opened.ok()) {
    removed_ = opened.error().code == ENOENT || opened.error().code == ESTALE;
    return opened;
  }
  if (!kill_.usable(Feature::pidfd) && !kill_.usable(Feature::cgroup_kill)) {
    return Error{ENOSYS, "neither pidfd nor cgroup.kill is usable: no safe way to signal"};
  }
  return {};
}

Result<ProcessSnapshot> Victim::list_processes() {
  std::vector<pid_t> known = processes_.known();
  known.insert(known.end(), newer_.pids().begin(), newer_.pids().end());
  std::ranges::sort(known);
  auto snapshot = take_process_snapshot(*dir_, kill_.context.never_kill, known, pinning(), only_,
                                        kill_.context.lister);
  if (snapshot.ok()) newer_.leave_out(*snapshot);
  unlisted_ = snapshot.ok() && snapshot->unlisted.has_value();
  return snapshot;
}

// Opens the processes to signal. False: none is left, or they cannot be listed.
bool Victim::open_processes() {
  auto snapshot = list_processes();
  // All listed processes may have exited while they were opened, and others been forked. What could
  // not be listed may be listed now, and what moved may have been missed.
  int empty = 0;
  for (int round = 1; round < kSweepsPerCheck; ++round) {
    if (!snapshot.ok() || !snapshot->found.empty()) break;
    const bool none = snapshot->present.empty() && !snapshot->unlisted;
    if (none ? ++empty == kEmptyLists : snapshot->quiet) break;
    snapshot = list_processes();
  }
  if (!snapshot.ok()) {
    removed_ = true;
    fail(Rung::pidfds, snapshot.error());
    return false;
  }
  admit(*snapshot);
  Attempt& pidfds = kill_.attempt(Rung::pidfds);
  pidfds.failure = why_incomplete(*snapshot);
  measure_before();
  if (snapshot->present.empty() && !snapshot->unlisted) {
    if (signalled_by_other_ && !kill_.options.dry_run && newer_.pids().empty()) {
      await_end();
      return false;
    }
    // It exited between the ranking and now. This is no kill, and nothing is pending release. The
    // cgroup is not remembered as failed: processes that enter it later can be killed.
    outcome_.exited = pidfds.at;
    fail(Rung::pidfds, Error{ESRCH, "no process was left in the cgroup"});
    // What another part of the agent has killed still counts as a kill.
    forgettable_ = !signalled_by_other_ && !earlier_;
    return false;
  }
  // cgroup.kill kills every process, so it must not be used once one process was refused.
  if (snapshot->refused == 0) select_group(snapshot->present, CgroupKill::Match::same);
  if (processes_.empty() && !cgroup_kill_.usable()) {
    if (!pidfds.failure) {
      pidfds.failure = Error{ESRCH, "every process exited while its pidfd was opened"};
    }
    finish(KillState::failed);
    return false;
  }
  return true;
}

// The cgroup of a warm-up is that of the agent.
void Victim::select_group(const std::vector<pid_t>& present, CgroupKill::Match wanted) {
  if (!only_) cgroup_kill_.select(dir_, present, wanted, unlisted_);
}

void Victim::measure_before() {
  if (!meter_) {
    auto meter = UsageMeter::open(*dir_, kill_.context.tree.version());
    if (!meter.ok()) return;
    meter_ = std::make_shared<const UsageMeter>(std::move(*meter));
  }
  if (const auto usage = meter_->read(); usage.ok()) outcome_.usage_before = lowest_ = *usage;
}

// ---- the signal ----

// SIGTERM to every process, as service managers do (systemd's KillMode=control-group). False if no
// process could be signalled: then there is nothing to wait for.
bool Victim::request_exit(Duration grace) {
  if (processes_.empty() || !processes_.signal(0, SIGTERM)) {
    if (processes_.empty())
      kill_.attempt(Rung::sigterm).failure = Error{ENOSYS, "SIGTERM needs pidfds"};
    return false;
  }
  outcome_.state = KillState::terminating;
  kill_at_ = outcome_.began + std::min<Duration>(grace, kGraceMax);
  return true;
}

// Called without a grace, or when it has expired.
void Victim::end_now() {
  const bool after_grace = outcome_.state == KillState::terminating;
  outcome_.state = KillState::in_flight;
  deadline_ = kill_.context.clock.now() + kill_.options.release_timeout;
  forget_at_ = kill_.context.clock.now() + kForgetAfter;
  if (after_grace) {
    settled_ = false;
    sweep();
    if (processes_.alive() == 0 && settled_) return check();
    cgroup_kill_.deselect();
    const auto now = list_processes();
    if (now.ok() && now->refused == 0) select_group(now->present, CgroupKill::Match::same);
  }
  if (!signal_all()) return finish(KillState::failed);
  processes_.reap(0);
  if (!after_grace) watch(0);
  sweep();
  check();
}

// pidfds first, because they take no sleeping lock. cgroup.kill then reaches processes that could
// not be pinned or were forked meanwhile. False if nothing could be signalled.
bool Victim::signal_all() {
  if (processes_.empty() || !processes_.signal(0, SIGKILL)) {
    return cgroup_kill_.write(processes_.alive() + unpinned_);
  }
  cgroup_kill_.queue(unpinned_);
  return true;
}

// Takes the processes of a snapshot; returns the index of the first.
std::size_t Victim::admit(ProcessSnapshot& snapshot) {
  const std::size_t from = processes_.add(std::move(snapshot.found));
  const auto added = static_cast<std::uint32_t>(processes_.size() - from);
  unpinned_ = pinning() == Pinning::by_pidfd
                  ? snapshot.unpinned
                  : static_cast<std::uint32_t>(snapshot.present.size()) - snapshot.refused;
  // A round that finds no further process is no attempt at a time of its own.
  if (added > 0) kill_.attempt(Rung::pidfds).processes += added;
  return from;
}

// Signals processes forked since the last snapshot, until no new one appears.
void Victim::sweep() {
  for (int round = 0; round < kSweepsPerCheck && !settled_; ++round) {
    auto snapshot = list_processes();
    if (!snapshot.ok()) {
      removed_ = true;
      return;
    }
    settled_ = snapshot->quiet;
    const std::size_t from = admit(*snapshot);
    if (snapshot->unlisted) kill_.attempt(Rung::pidfds).failure = snapshot->unlisted;
    if (settled_) return;
    if (from == processes_.size() && unlisted_) return;  // the next round tries again
    if (from == processes_.size()) continue;
    watch(from);
    // A terminating victim may fork processes to clean up.
    if (outcome_.state == KillState::terminating) continue;
    // Failures are in the attempt, and keep the kill from being released.
    (void)processes_.signal(from, SIGKILL);
    processes_.reap(from);
  }
}

// ---- after it ----

void Victim::watch(std::size_t from) {
  processes_.watch(from);
  cgroup_kill_.watch();
}

void Victim::on_event(std::uint32_t index) {
  if (index == EventKey::kCgroupEvents) return cgroup_kill_.on_event();
  processes_.on_exit(index);
}

void Victim::on_report(std::uint32_t index, const ReapReport& report) {
  if (index == EventKey::kCgroupKill) return cgroup_kill_.on_kill_report(report);
  if (index == EventKey::kCgroupEvents) return cgroup_kill_.on_watch_report(report);
  if (index == EventKey::kReclaim) return reclaim_.on_report(report);
  processes_.on_reaped(index, report);
}

// Listing thousands of processes repeatedly at real-time priority would keep them from the CPU time
// they need to exit.
void Victim::sweep_in_turn() {
  const MonotonicTime began = kill_.context.clock.now();
  sweep();
  const MonotonicTime ended = kill_.context.clock.now();
  sweep_due_ = ended + 4 * (ended - began);
}

// Processes that enter the cgroup after the last exit are not the victim.
void Victim::check_exits() {
  if (!dir_ && !removed_) follow_strike();
  if (outcome_.exited || (!dir_ && !removed_)) return;
  processes_.find_exits();
  // The last known process exited: check for unknown ones.
  if (processes_.alive() == 0) settled_ = false;
  if (!settled_ && !removed_ && checked_at_ >= sweep_due_) sweep_in_turn();
  // cgroup.events covers what could not be listed. On a hybrid host it is that of another group.
  const bool all_seen =
      settled_ || (unlisted_ && cgroup_kill_.watched() && !kill_.context.tree.hybrid());
  const bool none_left = processes_.alive() == 0 && unpinned_ == 0;
  const bool gone = removed_ || (all_seen && none_left && !cgroup_kill_.populated());
  if (!gone || !is_empty_again()) return;
  outcome_.exited = kill_.context.clock.now();
  // A victim that exited within its grace also gets release_timeout for its memory to come back.
  if (outcome_.state == KillState::terminating) {
    deadline_ = *outcome_.exited + kill_.options.release_timeout;
  }
}

// Not if cgroup.events shows the end of the last process.
bool Victim::is_empty_again() {
  if (removed_ || (cgroup_kill_.watched() && !kill_.context.tree.hybrid())) return true;
  settled_ = false;
  sweep();
  return removed_ || (settled_ && processes_.alive() == 0 && unpinned_ == 0);
}

void Victim::check_memory() {
  const bool exited = outcome_.exited.has_value();
  bool back = exited;  // without a usage file only the exit counts
  if (meter_) {
    const auto usage = meter_->read();
    if (!usage.ok() && usage.error().code == ENODEV) note_lost_usage();
    if (usage.ok()) {
      back = memory_is_back(outcome_.usage_before, *usage, exited && !exit_is_unseen());
      note_progress(*usage);
    }
  }
  if (!back && !removed_) return;
  if (!outcome_.released) outcome_.released = kill_.context.clock.now();
  if (removed_ && !outcome_.exited) outcome_.exited = outcome_.released;
}

// Removed: its processes have exited, or moved out and are no longer part of it. A cgroup that is
// still there has lost the file: its memory controller was off for a time.
void Victim::note_lost_usage() {
  if (dir_ && dir_->open_file("cgroup.procs", O_RDONLY)) {
    meter_.reset();
  } else {
    removed_ = true;
  }
}

// A large victim on a slow machine is not stuck while its usage falls: each step down restarts the
// timeout. The number of steps is bounded by its usage. After the last exit only reclaim frees
// more. Tenants can slow that down, by their own I/O or by freeing shared memory in small steps,
// and while a kill is in flight no further victim is pre-ranked: so its total time is bounded too.
void Victim::note_progress(Bytes usage) {
  if (usage + kUsageGrain > lowest_) return;
  lowest_ = usage;
  deadline_ = checked_at_ + kill_.options.release_timeout;
  if (!outcome_.exited) return;
  deadline_ =
      std::min(deadline_, *outcome_.exited + kTimeoutsAfterExit * kill_.options.release_timeout);
}

// Once, when the last process has exited.
void Victim::reclaim_rest() {
  if (!outcome_.exited || removed_ || only_ || !reclaim_.may_start()) return;
  if (processes_.is_reaping()) return;
  const auto usage = usage_now();
  if (usage && dir_) reclaim_.start(*dir_, *usage);
}

void Victim::check() {
  checked_at_ = kill_.context.clock.now();
  // A victim that exited is not killed again: later processes in the cgroup are not the victim.
  const bool grace_is_over =
      outcome_.state == KillState::terminating && !outcome_.exited && checked_at_ >= *kill_at_;
  if (grace_is_over) return end_now();
  if (!under_way()) {
    // A removed cgroup need not be remembered if it was never signalled. A kill counts for the next
    // decisions (policy/damage_limit.h), whatever becomes of the cgroup.
    if (kill_.options.dry_run) note_memory_of_dry_run();
    if (!kill_.options.dry_run && meter_ && !usage_now()) removed_ = true;
    forgettable_ =
        forgettable_ || checked_at_ >= forget_at_ || (removed_ && !outcome_.signalled && !earlier_);
    return;
  }
  check_exits();
  reclaim_rest();
  // What a victim frees during its grace does not show its end.
  if (outcome_.state == KillState::terminating && !outcome_.exited) return;
  check_memory();
  const bool in_time = checked_at_ < deadline_;
  if (reclaim_.ended() && !outcome_.released) outcome_.released = checked_at_;
  // After all processes exited, nothing more is freed: the rest is page cache of no process.
  if (!in_time && outcome_.exited && !outcome_.released) outcome_.released = checked_at_;
  // The memory may be back before the processes exit, since the reapers free it. Then the exit is
  // awaited until the deadline, only for the record, and so is the thread that writes cgroup.kill.
  // By then the remaining memory is next to nothing.
  const bool complete =
      outcome_.exited && !cgroup_kill_.queued() && !processes_.is_reaping() && !reclaim_.queued();
  if (outcome_.released && (complete || !in_time)) return finish(KillState::released);
  if (outcome_.state == KillState::in_flight && !in_time) finish(KillState::stuck);
  if (outcome_.state == KillState::stuck && checked_at_ >= forget_at_) forgettable_ = true;
  if (outcome_.state == KillState::terminating) return;
  processes_.reap_rest();
}

void Victim::note_memory_of_dry_run() {
  if (outcome_.state != KillState::in_flight || !meter_) return;
  const Bytes usage = usage_now().value_or(Bytes{0});  // removed: none
  if (usage.count > outcome_.usage_before.count / 2) return;
  outcome_.state = KillState::released;
  outcome_.freed = outcome_.usage_before - usage;
}

void Victim::finish(KillState state) {
  outcome_.state = state;
  if (cgroup_kill_.queued()) {
    kill_.attempt(Rung::cgroup_kill).failure =
        Error{EINPROGRESS, "cgroup.kill still waits for a reaper thread or the kernel's lock"};
  }
  const auto usage = usage_now();
  // A removed cgroup has no usage left; the usage of an unreadable one is unknown.
  if (usage) outcome_.freed = outcome_.usage_before - *usage;
  if (usage && outcome_.exited && dir_) reclaim_.note_left_behind(*dir_, *usage);
  if (removed_) outcome_.freed = outcome_.usage_before;
  outcome_waits_ = true;
  forgettable_ = removed_ && !outcome_.signalled && !earlier_;
}

void Victim::fail(Rung rung, Error why) {
  kill_.attempt(rung).failure = std::move(why);
  finish(KillState::failed);
  outcome_.freed = Bytes{0};
}

std::optional<Outcome> Victim::take_outcome() {
  if (!outcome_waits_) return std::nullopt;
  outcome_waits_ = false;
  return outcome_;
}

KillProgress Victim::progress() const {
  const Bytes credit = outcome_.state == KillState::in_flight ? remaining() : Bytes{0};
  KillProgress progress{outcome_.victim.cgroup,
                        outcome_.victim.path,
                        outcome_.state,
                        outcome_.began,
                        credit,
                        std::nullopt};
  if (outcome_.state == KillState::terminating) progress.kill_at = kill_at_;
  progress.expected = expected_;
  progress.freed = outcome_.freed;
  if (earlier_) {
    progress.started = earlier_->started;
    progress.expected = earlier_->expected;
    progress.freed = earlier_->freed;
    // Nothing was left to kill: the earlier kill stays what it was.
    if (progress.state == KillState::failed) progress.state = earlier_->state;
  }
  return progress;
}

// In working set, as the policy's need is. A dry run keeps all of it, because no memory comes back.
// A victim with unreadable usage counts with its usage at the ranking.
Bytes Victim::remaining() const {
  const bool as_before = kill_.options.dry_run || !meter_;
  const Bytes usage = as_before ? outcome_.usage_before : usage_now().value_or(Bytes{0});
  return working_set(usage, inactive_file_);
}

bool Victim::under_way() const {
  if (kill_.options.dry_run) return false;
  return outcome_.state == KillState::in_flight || outcome_.state == KillState::stuck ||
         outcome_.state == KillState::terminating;
}

std::optional<MonotonicTime> Victim::next_due() const {
  const bool would_die = kill_.options.dry_run && outcome_.state == KillState::in_flight;
  if (would_die) return std::min(checked_at_ + kDryRunInterval, forget_at_);
  if (!under_way()) return forget_at_;
  if (outcome_.state == KillState::stuck) return checked_at_ + kStuckInterval;
  const bool in_grace = outcome_.state == KillState::terminating && !outcome_.exited;
  // After the last exit the sweep that confirms it may still be due, and no event follows.
  if (in_grace && processes_.alive() > 0) return kill_at_;
  const MonotonicTime next =
      std::max(checked_at_ + (settled_ ? kCheckInterval : kUnsettledInterval), sweep_due_);
  return std::min(next, in_grace ? *kill_at_ : deadline_);
}

// Nullopt if the usage is unknown or the cgroup was removed.
std::optional<Bytes> Victim::usage_now() const {
  return meter_ ? meter_->read().optional() : std::nullopt;
}

}  // namespace forestall::actuators
