// SPDX-License-Identifier: Apache-2.0
#include "actuators/cgroup_kill.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace forestall::actuators {
namespace {

// Signalled processes may be replaced: a service that is restarted in the same directory is not the
// victim any more. A fork appears within microseconds.
constexpr Duration kCgroupKillLatest = std::chrono::milliseconds(250);

}  // namespace

// What is left of the kill is not of this victim any more.
CgroupKill::~CgroupKill() {
  withdraw();
  if (events_) ::epoll_ctl(kill_.context.epoll, EPOLL_CTL_DEL, events_.get(), nullptr);
}

void CgroupKill::select(const std::shared_ptr<const kernel::CgroupDir>& victim,
                        const std::vector<pid_t>& present, Match wanted, bool unlisted) {
  if (!kill_.usable(Feature::cgroup_kill)) return;
  const VictimContext& context = kill_.context;
  // A process that could not be listed could not be refused either.
  if (unlisted && context.never_kill.any_within(context.tree, kill_.outcome.victim.path)) return;
  if (context.tree.version() == kernel::CgroupVersion::v2) {
    selection_ = Selection{victim, {}, wanted};
  } else if (context.tree.hybrid() && !present.empty()) {
    selection_ = Selection{nullptr, present, wanted};
  }
}

bool CgroupKill::usable() const {
  if (!selection_ || selection_->directory) return selection_.has_value();
  return find_same_group(kill_.context.tree, kill_.outcome.victim.path, selection_->present,
                         selection_->wanted == Match::same) != nullptr;
}

bool CgroupKill::write(std::uint32_t processes) {
  if (!selection_) return false;
  const auto now = call(/*kills=*/true);
  now->not_after = MonotonicTime::max();  // nothing else has ended a process
  const ReapReport done = now->run(0);
  if (done.result == ReapResult::other) {
    selection_.reset();
    return false;
  }
  take_events(*now);
  Attempt& killed = kill_.attempt(Rung::cgroup_kill);
  if (done.result != ReapResult::freed) {
    killed.failure = Error{done.code, "cgroup.kill of " + kill_.outcome.victim.path};
    selection_.reset();
    return false;
  }
  killed.processes = processes;
  kill_.outcome.processes = killed.processes;
  kill_.outcome.signalled = killed.at;
  return true;
}

std::shared_ptr<GroupKillCall> CgroupKill::call(bool kills) const {
  auto made = std::make_shared<GroupKillCall>(kill_.context.tree);
  made->directory = selection_->directory;
  made->path = kill_.outcome.victim.path;
  made->present = selection_->present;
  made->exactly = selection_->wanted == Match::same;
  made->kills = kills;
  made->not_after = SystemClock().now() + kCgroupKillLatest;
  return made;
}

bool CgroupKill::submit(std::uint32_t index, std::shared_ptr<GroupKillCall> call) const {
  ReapJob job;
  job.ticket = kill_.key(index);
  job.call = ReapCall::group_kill;
  job.group = std::move(call);
  return kill_.context.group_killer.submit(std::move(job));
}

void CgroupKill::queue(std::uint32_t unpinned) {
  if (!selection_) return;
  unpinned_ = unpinned;
  auto made = call(/*kills=*/true);
  made->exactly = false;  // some of the signalled processes may have ended already
  if (submit(EventKey::kCgroupKill, made)) {
    killing_ = std::move(made);
    return;
  }
  kill_.attempt(Rung::cgroup_kill).failure =
      Error{EAGAIN, "queue of cgroup.kill full: later forks are killed by pidfd only"};
}

void CgroupKill::withdraw() {
  if (killing_) killing_->withdrawn = true;
}

void CgroupKill::on_kill_report(const ReapReport& report) {
  const auto done = std::exchange(killing_, nullptr);
  take_events(*done);
  if (report.result == ReapResult::other) {
    selection_.reset();
    return;
  }
  Outcome& outcome = kill_.outcome;
  Attempt& killed = kill_.attempt(Rung::cgroup_kill);
  killed.failure.reset();
  if (report.result == ReapResult::failed) {
    killed.failure = Error{report.code, "cgroup.kill of " + outcome.victim.path};
  } else if (report.result == ReapResult::freed) {
    killed.processes = unpinned_;
    outcome.processes += killed.processes;
    if (killed.processes > 0 && !outcome.signalled) outcome.signalled = killed.at;
  }
}

void CgroupKill::watch() {
  if (!selection_ || may_be_watched()) return;
  auto made = call(/*kills=*/false);
  if (submit(EventKey::kCgroupEvents, made)) opening_ = std::move(made);
}

void CgroupKill::on_watch_report(const ReapReport& /*report*/) {
  take_events(*std::exchange(opening_, nullptr));
}

void CgroupKill::take_events(GroupKillCall& call) {
  if (events_ || !call.events) return;
  events_ = std::move(call.events);
  on_event();  // read once, so that only a change polls
  epoll_event event{};
  event.events = EPOLLPRI;
  event.data.u64 = kill_.key(EventKey::kCgroupEvents);
  if (events_) ::epoll_ctl(kill_.context.epoll, EPOLL_CTL_ADD, events_.get(), &event);
}

// Reading re-arms the poll. The content is not needed: the next round checks the processes.
void CgroupKill::on_event() {
  std::array<char, 128> text{};
  if (::pread(events_.get(), text.data(), text.size(), 0) >= 0) return;
  ::epoll_ctl(kill_.context.epoll, EPOLL_CTL_DEL, events_.get(), nullptr);
  events_.reset();
}

bool CgroupKill::populated() const {
  std::array<char, 128> text{};
  if (!events_) return (killing_ && unpinned_ > 0) || opening_;
  if (::pread(events_.get(), text.data(), text.size() - 1, 0) <= 0) return false;
  return std::string_view(text.data()).find("populated 1") != std::string_view::npos;
}

}  // namespace forestall::actuators
