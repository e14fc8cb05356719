// SPDX-License-Identifier: Apache-2.0
#include "actuators/victim_processes.h"

#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <utility>

namespace forestall::actuators {
namespace {

// Up to this many processes are reaped largest first. For more, sorting costs more than the order
// gains, since all of them are signalled by then and free their own memory too.
constexpr std::size_t kSortedMax = 32;

}  // namespace

std::size_t VictimProcesses::add(std::vector<kernel::ProcessRef> found) {
  const std::size_t from = entries_.size();
  for (auto& process : found) add_one(std::move(process), false);
  return from;
}

std::size_t VictimProcesses::add_signalled(std::vector<kernel::ProcessRef> reached) {
  const std::size_t from = entries_.size();
  for (auto& process : reached) add_one(std::move(process), true);
  return from;
}

std::size_t VictimProcesses::add_signalled(std::span<const kernel::ProcessRef* const> reached) {
  const std::size_t from = entries_.size();
  for (const kernel::ProcessRef* process : reached) {
    auto copy = process->copy();
    if (copy.ok()) add_one(std::move(*copy), true);
  }
  return from;
}

void VictimProcesses::add_one(kernel::ProcessRef process, bool signalled) {
  const pid_t pid = process.id().pid;
  entries_.push_back({std::move(process), pid, signalled});
  ++alive_;
}

void VictimProcesses::clear() {
  for (Entry& entry : entries_) unwatch(entry);
  entries_.clear();
}

bool VictimProcesses::signal(std::size_t from, int signal) {
  std::uint32_t reached = 0;
  bool any_gone = false;
  std::optional<Error> failure;
  Outcome& outcome = kill_.outcome;
  for (std::size_t i = from; i < entries_.size(); ++i) {
    if (!entries_[i].process) continue;
    const auto result = entries_[i].process->send_signal(signal);
    if (result.ok()) {
      if (++reached == 1 && !outcome.signalled) outcome.signalled = kill_.context.clock.now();
      if (!std::exchange(entries_[i].signalled, true)) ++outcome.processes;
    } else if (result.error().code == ESRCH) {
      any_gone = true;  // it exited and was reaped: its memory is being freed
    } else if (!failure) {
      failure = result.error();
    }
  }
  Attempt& sent = kill_.attempt(signal == SIGTERM ? Rung::sigterm : Rung::sigkill);
  sent.processes += reached;
  if (failure) sent.failure = std::move(failure);
  return reached > 0 || any_gone;
}

void VictimProcesses::reap(std::size_t from) {
  const std::size_t count = entries_.size() - from;
  if (count <= kill_.context.reapers.threads() || count > kSortedMax) {
    for (std::size_t i = from; i < entries_.size() && submit(i); ++i) {
    }
    return;
  }
  std::array<std::pair<std::uint64_t, std::size_t>, kSortedMax> order;
  for (std::size_t i = 0; i < count; ++i) {
    order[i] = {kernel::resident_pages(entries_[from + i].pid), from + i};
  }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
  for (std::size_t i = 0; i < count && submit(order[i].second); ++i) {
  }
}

void VictimProcesses::reap_rest() {
  for (std::size_t i = 0; i < entries_.size() && submit(i); ++i) {
  }
}

// False if the queue is full: then the rest need not be tried either.
bool VictimProcesses::submit(std::size_t index) {
  Entry& entry = entries_[index];
  if (!kill_.usable(Feature::process_mrelease)) return true;
  if (!entry.process || entry.reaping != Reaping::wanted) return true;
  auto copy = entry.process->duplicate();
  const std::uint64_t ticket = kill_.key(static_cast<std::uint32_t>(index));
  if (!copy.ok()) {
    kill_.attempt(Rung::mrelease).failure = copy.error();
  } else if (kill_.context.reapers.submit({ticket, std::move(*copy)})) {
    entry.reaping = Reaping::queued;
  } else {
    ++unreaped_;
    kill_.attempt(Rung::mrelease).failure =
        Error{EAGAIN, "reaper queue full, " + std::to_string(unreaped_) + " times"};
    return false;
  }
  return true;
}

void VictimProcesses::on_reaped(std::size_t index, const ReapReport& report) {
  if (index >= entries_.size()) return;
  Entry& entry = entries_[index];
  Attempt& mrelease = kill_.attempt(Rung::mrelease);
  switch (report.result) {
    case ReapResult::freed:
    case ReapResult::gone:
      ++mrelease.processes;
      entry.reaping = Reaping::ended;
      break;
    case ReapResult::not_yet: entry.reaping = Reaping::wanted; break;
    case ReapResult::other:  // of a group only
    case ReapResult::failed:
      mrelease.failure = Error{report.code, "process_mrelease " + std::to_string(entry.pid)};
      entry.reaping = Reaping::ended;
      break;
  }
}

void VictimProcesses::watch(std::size_t from) {
  for (std::size_t i = from; i < entries_.size(); ++i) {
    if (!entries_[i].process) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kill_.key(static_cast<std::uint32_t>(i));
    // Fails only without memory or above fs.epoll.max_user_watches. find_exits() then checks the
    // processes themselves, and detects the exit a little later.
    if (::epoll_ctl(kill_.context.epoll, EPOLL_CTL_ADD, entries_[i].process->fd(), &event) != 0) {
      all_watched_ = false;
    }
  }
}

// A reaper's duplicate keeps the pidfd's open file, and so its registration, alive after our
// descriptor is closed. It must be removed explicitly.
void VictimProcesses::unwatch(Entry& entry) {
  if (!entry.process) return;
  ::epoll_ctl(kill_.context.epoll, EPOLL_CTL_DEL, entry.process->fd(), nullptr);
  entry.process.reset();
  --alive_;
}

void VictimProcesses::on_exit(std::size_t index) {
  if (index < entries_.size()) unwatch(entries_[index]);
}

void VictimProcesses::find_exits() {
  if (all_watched_) return;
  for (Entry& entry : entries_) {
    if (entry.process && entry.process->exited()) unwatch(entry);
  }
}

std::uint32_t VictimProcesses::count_unknown(const std::vector<pid_t>& pids) const {
  std::vector<pid_t> had;
  had.reserve(entries_.size());
  for (const Entry& entry : entries_) had.push_back(entry.pid);
  std::ranges::sort(had);
  return static_cast<std::uint32_t>(std::ranges::count_if(
      pids, [&](pid_t pid) { return !std::ranges::binary_search(had, pid); }));
}

bool VictimProcesses::is_reaping() const {
  return std::ranges::any_of(entries_,
                             [](const Entry& entry) { return entry.reaping == Reaping::queued; });
}

std::vector<pid_t> VictimProcesses::known() const {
  std::vector<pid_t> pids;
  pids.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    if (entry.process && !entry.process->exited()) pids.push_back(entry.pid);
  }
  std::ranges::sort(pids);
  return pids;
}

}  // namespace forestall::actuators
