// SPDX-License-Identifier: Apache-2.0
#include "actuators/victim.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace forestall::actuators {
namespace {

// Sweeps for late forks per call; a faster fork bomb is swept again from the loop.
constexpr int kSweepsPerCheck = 8;
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
// Up to this many processes are reaped largest first. For more, sorting costs more than the order
// gains, since all of them are signalled by then and free their own memory too.
constexpr std::size_t kSortedMax = 32;

}  // namespace

Victim::Victim(const VictimContext& context, std::uint32_t number, const WorkloadSample& sample,
               const LadderOptions& options, std::optional<pid_t> only,
               std::shared_ptr<const PinnedProcesses> pinned)
    : context_(context),
      number_(number),
      options_(options),
      only_(only),
      pinned_(std::move(pinned)),
      inactive_file_(sample.inactive_file.value_or(Bytes{0})),
      expected_(sample.working_set().value_or(Bytes{0})) {
  outcome_.victim = sample.workload;
  outcome_.usage_before = sample.usage.value_or(Bytes{0});
}

Victim::~Victim() {
  for (Held& held : held_) unwatch(held);
  if (events_) ::epoll_ctl(context_.epoll, EPOLL_CTL_DEL, events_.get(), nullptr);
}

// ---- before the signal ----

void Victim::begin(Duration grace) {
  outcome_.began = checked_at_ = context_.clock.now();
  deadline_ = outcome_.began + options_.release_timeout;
  lowest_ = outcome_.usage_before;
  forget_at_ = outcome_.began + kForgetAfter;
  outcome_.dry_run = options_.dry_run;
  outcome_.attempts.reserve(5);
  const bool at_once = grace <= Duration::zero() && !options_.dry_run;
  if (pinned_ && at_once && kill_pinned()) return;
  if (auto verified = verify(); !verified.ok()) return fail(Rung::verify, verified.error());
  attempt(Rung::verify).processes = 0;
  if (!open_processes()) return;
  if (options_.dry_run) {
    held_.clear();
    alive_ = 0;
    outcome_waits_ = true;
    return;
  }
  if (grace > Duration::zero() && request_exit(grace)) {
    watch(0);
    return check();
  }
  end_now();
}

void Victim::cut_grace(Duration grace) {
  if (outcome_.state != KillState::terminating) return;
  kill_at_ = std::min(*kill_at_, context_.clock.now() + grace);
  check();
}

Result<void> Victim::verify() {
  const Workload& victim = outcome_.victim;
  if (victim.path == "/" && !only_) {
    return Error{EPERM, "refused: the root cgroup holds the whole system"};
  }
  auto dir = context_.tree.open(victim.path);
  if (!dir.ok()) {
    removed_ = dir.error().code == ENOENT;
    return dir.error();
  }
  if (dir->id() != victim.cgroup) {
    removed_ = true;
    return Error{ESTALE, "cgroup " + victim.path + " was removed and created again: inode " +
                             std::to_string(dir->id().inode) + " is not the ranked " +
                             std::to_string(victim.cgroup.inode)};
  }
  dir_ = std::make_shared<const kernel::CgroupDir>(std::move(*dir));
  if (!usable(Feature::pidfd) && !usable(Feature::cgroup_kill)) {
    return Error{ENOSYS, "neither pidfd nor cgroup.kill is usable: no safe way to signal"};
  }
  return {};
}

Result<ProcessSnapshot> Victim::list_processes() {
  auto snapshot = take_process_snapshot(*dir_, context_.never_kill, known(), hold(), only_);
  unlisted_ = snapshot.ok() && snapshot->unlisted.has_value();
  return snapshot;
}

// Fills held_; false if nothing is left to signal.
bool Victim::open_processes() {
  auto snapshot = list_processes();
  // All listed processes may have exited while they were opened, and others been forked. What could
  // not be listed may be listed now.
  for (int round = 1; round < kSweepsPerCheck; ++round) {
    if (!snapshot.ok() || snapshot->quiet || !snapshot->found.empty()) break;
    if (snapshot->present.empty() && !snapshot->unlisted) break;
    snapshot = list_processes();
  }
  if (!snapshot.ok()) {
    removed_ = true;
    fail(Rung::pidfds, snapshot.error());
    return false;
  }
  admit(*snapshot);
  Attempt& pidfds = attempt(Rung::pidfds);
  pidfds.failure = why_incomplete(*snapshot);
  measure_before();
  if (snapshot->present.empty() && !snapshot->unlisted) {
    if (signalled_by_other_ && !options_.dry_run) {
      await_end();
      return false;
    }
    // It exited between the ranking and now. This is no kill, and nothing is pending release. The
    // cgroup is not remembered as failed: processes that enter it later can be killed.
    outcome_.exited = pidfds.at;
    fail(Rung::pidfds, Error{ESRCH, "no process was left in the cgroup"});
    forgettable_ = true;
    return false;
  }
  // cgroup.kill kills every process, so it must not be used once one process was refused.
  if (snapshot->refused == 0 && !only_) open_twin(snapshot->present, Twin::same);
  if (held_.empty() && !twin_) {
    if (!pidfds.failure) {
      pidfds.failure = Error{ESRCH, "every process exited while its pidfd was opened"};
    }
    finish(KillState::failed);
    return false;
  }
  return true;
}

void Victim::measure_before() {
  auto meter = UsageMeter::open(*dir_, context_.tree.version());
  if (!meter.ok()) return;
  meter_ = std::make_shared<const UsageMeter>(std::move(*meter));
  if (const auto usage = meter_->read(); usage.ok()) outcome_.usage_before = lowest_ = *usage;
}

// ---- the signal ----

// SIGTERM to every process, as service managers do (systemd's KillMode=control-group). False if no
// process could be signalled: then there is nothing to wait for.
bool Victim::request_exit(Duration grace) {
  if (held_.empty() || !signal_processes(0, SIGTERM)) {
    if (held_.empty()) attempt(Rung::sigterm).failure = Error{ENOSYS, "SIGTERM needs pidfds"};
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
  deadline_ = context_.clock.now() + options_.release_timeout;
  forget_at_ = context_.clock.now() + kForgetAfter;
  if (after_grace) {
    settled_ = false;
    sweep();
    if (alive_ == 0 && settled_) return check();
    compare_twin_again();
  }
  if (!signal_all()) return finish(KillState::failed);
  reap(0);
  if (!after_grace) watch(0);
  sweep();
  check();
}

// pidfds first, because they take no sleeping lock. cgroup.kill then reaches processes that could
// not be pinned or were forked meanwhile. False if nothing could be signalled.
bool Victim::signal_all() {
  if (held_.empty() || !signal_processes(0, SIGKILL)) return kill_cgroup();
  queue_cgroup_kill();
  return true;
}

// False if there was no process to signal, or all signals failed.
bool Victim::signal_processes(std::size_t from, int signal) {
  std::uint32_t reached = 0;
  bool any_gone = false;
  std::optional<Error> failure;
  for (std::size_t i = from; i < held_.size(); ++i) {
    if (!held_[i].process) continue;
    const auto result = held_[i].process->send_signal(signal);
    if (result.ok()) {
      if (++reached == 1 && !outcome_.signalled) outcome_.signalled = context_.clock.now();
      if (!std::exchange(held_[i].signalled, true)) ++outcome_.processes;
    } else if (result.error().code == ESRCH) {
      any_gone = true;  // it exited and was reaped: its memory is being freed
    } else if (!failure) {
      failure = result.error();
    }
  }
  Attempt& sent = attempt(signal == SIGTERM ? Rung::sigterm : Rung::sigkill);
  sent.processes += reached;
  if (failure) sent.failure = std::move(failure);
  return reached > 0 || any_gone;
}

// Takes the processes of a snapshot into held_; returns the index of the first.
std::size_t Victim::admit(ProcessSnapshot& snapshot) {
  const std::size_t from = held_.size();
  for (auto& process : snapshot.found) {
    const pid_t pid = process.id().pid;
    held_.push_back({std::move(process), pid, Reaping::wanted});
  }
  const auto added = static_cast<std::uint32_t>(held_.size() - from);
  alive_ += added;
  unheld_ = hold() == Pinning::by_pidfd
                ? snapshot.unpinned
                : static_cast<std::uint32_t>(snapshot.present.size()) - snapshot.refused;
  // A round that finds no further process is no attempt at a time of its own.
  if (added > 0) attempt(Rung::pidfds).processes += added;
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
    if (snapshot->unlisted) attempt(Rung::pidfds).failure = snapshot->unlisted;
    if (settled_) return;
    if (from == held_.size() && unlisted_) return;  // the next round tries again
    if (from == held_.size()) continue;
    watch(from);
    // A terminating victim may fork processes to clean up.
    if (outcome_.state == KillState::terminating) continue;
    // Failures are in the attempt, and keep the kill from being released.
    (void)signal_processes(from, SIGKILL);
    reap(from);
  }
}

// ---- after it ----

// Pids held and not known to have exited, sorted. A process that exited may have been reaped and
// its pid reused by a later fork, which must be opened anew.
std::vector<pid_t> Victim::known() const {
  std::vector<pid_t> pids;
  pids.reserve(held_.size());
  for (const Held& held : held_) {
    if (held.process && !held.process->exited()) pids.push_back(held.pid);
  }
  std::ranges::sort(pids);
  return pids;
}

void Victim::watch(std::size_t from) {
  for (std::size_t i = from; i < held_.size(); ++i) {
    if (!held_[i].process) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = EventKey{number_, static_cast<std::uint32_t>(i)}.pack();
    // Fails only without memory or above fs.epoll.max_user_watches. The next round then
    // checks the processes themselves, and detects the exit a little later.
    if (::epoll_ctl(context_.epoll, EPOLL_CTL_ADD, held_[i].process->fd(), &event) != 0) {
      all_watched_ = false;
    }
  }
  if (!twin_ || events_) return;
  auto events = twin_->open_file("cgroup.events", O_RDONLY);
  if (!events.ok()) return;
  events_ = std::move(*events);
  on_event(EventKey::kCgroupEvents);  // read once, so that only a change polls
  epoll_event event{};
  event.events = EPOLLPRI;
  event.data.u64 = EventKey{number_, EventKey::kCgroupEvents}.pack();
  if (events_) ::epoll_ctl(context_.epoll, EPOLL_CTL_ADD, events_.get(), &event);
}

// A reaper's duplicate keeps the pidfd's open file, and so its registration, alive after our
// descriptor is closed. It must be removed explicitly.
void Victim::unwatch(Held& held) {
  if (!held.process) return;
  ::epoll_ctl(context_.epoll, EPOLL_CTL_DEL, held.process->fd(), nullptr);
  held.process.reset();
  --alive_;
}

void Victim::on_event(std::uint32_t index) {
  if (index != EventKey::kCgroupEvents) {
    if (index < held_.size()) unwatch(held_[index]);
    return;
  }
  std::array<char, 128> text{};
  // Reading re-arms the poll. The content is not needed: the next round checks the processes.
  if (::pread(events_.get(), text.data(), text.size(), 0) >= 0) return;
  ::epoll_ctl(context_.epoll, EPOLL_CTL_DEL, events_.get(), nullptr);
  events_.reset();
}

// Queues the dying processes for the reapers, the largest first.
void Victim::reap(std::size_t from) {
  const std::size_t count = held_.size() - from;
  if (count <= context_.reapers.threads() || count > kSortedMax) {
    for (std::size_t i = from; i < held_.size() && submit(i); ++i) {
    }
    return;
  }
  std::array<std::pair<std::uint64_t, std::size_t>, kSortedMax> order;
  for (std::size_t i = 0; i < count; ++i) {
    order[i] = {kernel::resident_pages(held_[from + i].pid), from + i};
  }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
  for (std::size_t i = 0; i < count && submit(order[i].second); ++i) {
  }
}

// False if the queue is full: then the rest need not be tried either.
bool Victim::submit(std::size_t index) {
  Held& held = held_[index];
  if (!usable(Feature::process_mrelease)) return true;
  if (!held.process || held.reaping != Reaping::wanted) return true;
  auto copy = held.process->duplicate();
  const std::uint64_t ticket = EventKey{number_, static_cast<std::uint32_t>(index)}.pack();
  if (!copy.ok()) {
    attempt(Rung::mrelease).failure = copy.error();
  } else if (context_.reapers.submit({ticket, std::move(*copy)})) {
    held.reaping = Reaping::queued;
  } else {
    ++unreaped_;
    attempt(Rung::mrelease).failure =
        Error{EAGAIN, "reaper queue full, " + std::to_string(unreaped_) + " times"};
    return false;
  }
  return true;
}

void Victim::on_report(std::uint32_t index, const ReapReport& report) {
  if (index == EventKey::kCgroupKill) return on_cgroup_kill(report);
  if (index == EventKey::kReclaim) return on_reclaim(report);
  if (index >= held_.size()) return;
  Attempt& mrelease = attempt(Rung::mrelease);
  switch (report.result) {
    case ReapResult::freed:
    case ReapResult::gone:
      ++mrelease.processes;
      held_[index].reaping = Reaping::ended;
      break;
    case ReapResult::not_yet: held_[index].reaping = Reaping::wanted; break;
    case ReapResult::failed:
      mrelease.failure = Error{report.code, "process_mrelease " + std::to_string(held_[index].pid)};
      held_[index].reaping = Reaping::ended;
      break;
  }
}

// Listing thousands of processes repeatedly at real-time priority would keep them from the CPU time
// they need to exit.
void Victim::sweep_in_turn() {
  const MonotonicTime began = context_.clock.now();
  sweep();
  const MonotonicTime ended = context_.clock.now();
  sweep_due_ = ended + 4 * (ended - began);
}

// Processes that enter the cgroup after the last exit are not the victim.
void Victim::check_exits() {
  if (outcome_.exited) return;
  if (!all_watched_) {
    for (Held& held : held_) {
      if (held.process && held.process->exited()) unwatch(held);
    }
  }
  // The last known process exited: check for unknown ones.
  if (alive_ == 0) settled_ = false;
  if (!settled_ && !removed_ && checked_at_ >= sweep_due_) sweep_in_turn();
  // cgroup.events covers what could not be listed. On a hybrid host it is that of another group.
  const bool all_seen = settled_ || (unlisted_ && events_ && !context_.tree.hybrid());
  const bool gone = removed_ || (all_seen && alive_ == 0 && unheld_ == 0 && !populated());
  if (!gone) return;
  outcome_.exited = context_.clock.now();
  // A victim that exited within its grace also gets release_timeout for its memory to come back.
  if (outcome_.state == KillState::terminating) {
    deadline_ = *outcome_.exited + options_.release_timeout;
  }
}

// cgroup.procs drops a process when its exit begins, before it frees its memory. The kernel reports
// the cgroup as unpopulated only after that (kernel/cgroup/cgroup.c css_task_iter_advance,
// cgroup_exit). A pidfd gives the same; this is for victims without pidfds.
bool Victim::populated() const {
  std::array<char, 128> text{};
  if (!events_ || ::pread(events_.get(), text.data(), text.size() - 1, 0) <= 0) return false;
  return std::string_view(text.data()).find("populated 1") != std::string_view::npos;
}

void Victim::check_memory() {
  const bool exited = outcome_.exited.has_value();
  bool back = exited;  // without a usage file only the exit counts
  if (meter_) {
    const auto usage = meter_->read();
    // Removed: its processes have exited, or moved out and are no longer part of it.
    if (!usage.ok() && usage.error().code == ENODEV) removed_ = true;
    if (usage.ok()) {
      back = memory_is_back(outcome_.usage_before, *usage, exited && !exit_unseen_);
      note_progress(*usage);
    }
  }
  if (!back && !removed_) return;
  if (!outcome_.released) outcome_.released = context_.clock.now();
  if (removed_ && !outcome_.exited) outcome_.exited = outcome_.released;
}

// A large victim on a slow machine is not stuck while its usage falls: each step down restarts the
// timeout. The number of steps is bounded by its usage. After the last exit only reclaim frees
// more. Tenants can slow that down, by their own I/O or by freeing shared memory in small steps,
// and while a kill is in flight no further victim is pre-ranked: so its total time is bounded too.
void Victim::note_progress(Bytes usage) {
  if (usage + kUsageGrain > lowest_) return;
  lowest_ = usage;
  deadline_ = checked_at_ + options_.release_timeout;
  if (!outcome_.exited) return;
  deadline_ = std::min(deadline_, *outcome_.exited + kTimeoutsAfterExit * options_.release_timeout);
}

void Victim::check() {
  checked_at_ = context_.clock.now();
  // A victim that exited is not killed again: later processes in the cgroup are not the victim.
  const bool grace_is_over =
      outcome_.state == KillState::terminating && !outcome_.exited && checked_at_ >= *kill_at_;
  if (grace_is_over) return end_now();
  if (!under_way()) {
    // A removed cgroup need not be remembered if it was never signalled. A kill counts for the next
    // decisions (policy/damage_limit.h), whatever becomes of the cgroup.
    if (options_.dry_run) note_memory_of_dry_run();
    if (!options_.dry_run && meter_ && !usage_now()) removed_ = true;
    forgettable_ = forgettable_ || checked_at_ >= forget_at_ || (removed_ && !outcome_.signalled);
    return;
  }
  check_exits();
  reclaim_rest();
  // What a victim frees during its grace does not show its end.
  if (outcome_.state == KillState::terminating && !outcome_.exited) return;
  check_memory();
  const bool in_time = checked_at_ < deadline_;
  if (reclaiming_ == Reclaiming::ended && !outcome_.released) outcome_.released = checked_at_;
  // After all processes exited, nothing more is freed: the rest is page cache of no process.
  if (!in_time && outcome_.exited && !outcome_.released) outcome_.released = checked_at_;
  // The memory may be back before the processes exit, since the reapers free it. Then the exit is
  // awaited until the deadline, only for the record, and so is the thread that writes cgroup.kill.
  // By then the remaining memory is next to nothing.
  const bool complete =
      outcome_.exited && !cgroup_kill_queued_ && !is_reaping() && reclaiming_ != Reclaiming::queued;
  if (outcome_.released && (complete || !in_time)) return finish(KillState::released);
  if (outcome_.state == KillState::in_flight && !in_time) finish(KillState::stuck);
  if (outcome_.state == KillState::stuck && checked_at_ >= forget_at_) forgettable_ = true;
  if (outcome_.state == KillState::terminating) return;
  // Submits again what a reaper gave up on, or what found the queue full.
  for (std::size_t i = 0; i < held_.size() && submit(i); ++i) {
  }
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
  if (cgroup_kill_queued_) {
    attempt(Rung::cgroup_kill).failure =
        Error{EINPROGRESS, "cgroup.kill still waits for a reaper thread or the kernel's lock"};
  }
  const auto usage = usage_now();
  // A removed cgroup has no usage left; the usage of an unreadable one is unknown.
  if (usage) outcome_.freed = outcome_.usage_before - *usage;
  if (usage && outcome_.exited) note_left_behind(*usage);
  if (removed_) outcome_.freed = outcome_.usage_before;
  outcome_waits_ = true;
  forgettable_ = removed_ && !outcome_.signalled;
}

void Victim::fail(Rung rung, Error why) {
  attempt(rung).failure = std::move(why);
  finish(KillState::failed);
  outcome_.freed = Bytes{0};
}

// One attempt per rung: later rounds on the same rung are added to it.
Attempt& Victim::attempt(Rung rung) {
  const auto found = std::ranges::find(outcome_.attempts, rung, &Attempt::rung);
  Attempt& entry = found != outcome_.attempts.end()
                       ? *found
                       : outcome_.attempts.emplace_back(Attempt{rung, {}, 0, std::nullopt});
  entry.at = context_.clock.now();
  return entry;
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
  return progress;
}

// In working set, as the policy's need is. A dry run keeps all of it, because no memory comes back.
// A victim with unreadable usage counts with its usage at the ranking.
Bytes Victim::remaining() const {
  const bool as_before = options_.dry_run || !meter_;
  const Bytes usage = as_before ? outcome_.usage_before : usage_now().value_or(Bytes{0});
  return working_set(usage, inactive_file_);
}

bool Victim::under_way() const {
  if (options_.dry_run) return false;
  return outcome_.state == KillState::in_flight || outcome_.state == KillState::stuck ||
         outcome_.state == KillState::terminating;
}

std::optional<MonotonicTime> Victim::next_due() const {
  const bool would_die = options_.dry_run && outcome_.state == KillState::in_flight;
  if (would_die) return std::min(checked_at_ + kDryRunInterval, forget_at_);
  if (!under_way()) return forget_at_;
  if (outcome_.state == KillState::stuck) return checked_at_ + kStuckInterval;
  const bool in_grace = outcome_.state == KillState::terminating && !outcome_.exited;
  // After the last exit the sweep that confirms it may still be due, and no event follows.
  if (in_grace && alive_ > 0) return kill_at_;
  const MonotonicTime next =
      std::max(checked_at_ + (settled_ ? kCheckInterval : kUnsettledInterval), sweep_due_);
  return std::min(next, in_grace ? *kill_at_ : deadline_);
}

// Nullopt if the usage is unknown or the cgroup was removed.
std::optional<Bytes> Victim::usage_now() const {
  return meter_ ? meter_->read().optional() : std::nullopt;
}

}  // namespace forestall::actuators
