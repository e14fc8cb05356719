// SPDX-License-Identifier: Apache-2.0
#include "actuators/cgroup_kill.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "kernel/cgroup_processes.h"

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
  const std::string& path = kill_.outcome.victim.path;
  auto directory = victim;
  if (context.tree.version() == kernel::CgroupVersion::v1) {
    auto unified = context.tree.open_unified(path);
    if (!unified.ok()) return;
    const auto members = kernel::list_processes(*unified);
    if (!members.ok() || members->failure || members->pids.empty()) return;
    if (!std::ranges::includes(present, members->pids)) return;
    if (wanted == Match::same && members->pids != present) return;
    directory = std::make_shared<const kernel::CgroupDir>(std::move(*unified));
  }
  // A process that could not be listed could not be refused either.
  if (unlisted && context.never_kill.any_within(context.tree, path)) return;
  directory_ = std::move(directory);
}

bool CgroupKill::write(std::uint32_t processes) {
  if (!directory_) return false;
  const auto written = directory_->write("cgroup.kill", "1");
  Attempt& killed = kill_.attempt(Rung::cgroup_kill);
  if (!written.ok()) {
    killed.failure = written.error();
    directory_.reset();
    return false;
  }
  killed.processes = processes;
  kill_.outcome.processes = killed.processes;
  kill_.outcome.signalled = killed.at;
  return true;
}

void CgroupKill::queue(std::uint32_t unpinned) {
  if (!directory_) return;
  auto file = directory_->open_file("cgroup.kill", O_WRONLY);
  if (!file.ok()) {
    kill_.attempt(Rung::cgroup_kill).failure = file.error();
    return;
  }
  unpinned_ = unpinned;
  withdrawn_ = std::make_shared<std::atomic<bool>>(false);
  ReapJob job{kill_.key(EventKey::kCgroupKill), std::move(*file), ReapCall::cgroup_kill,
              SystemClock().now() + kCgroupKillLatest};
  job.withdrawn = withdrawn_;
  queued_ = kill_.context.group_killer.submit(std::move(job));
  if (queued_) return;
  kill_.attempt(Rung::cgroup_kill).failure =
      Error{EAGAIN, "queue of cgroup.kill full: later forks are killed by pidfd only"};
}

void CgroupKill::withdraw() {
  if (queued_) *withdrawn_ = true;
}

void CgroupKill::on_report(const ReapReport& report) {
  queued_ = false;
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
  if (!directory_ || events_) return;
  auto events = directory_->open_file("cgroup.events", O_RDONLY);
  if (!events.ok()) return;
  events_ = std::move(*events);
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
  if (!events_ || ::pread(events_.get(), text.data(), text.size() - 1, 0) <= 0) return false;
  return std::string_view(text.data()).find("populated 1") != std::string_view::npos;
}

}  // namespace forestall::actuators
