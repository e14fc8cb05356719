// SPDX-License-Identifier: Apache-2.0
#include "daemon/killed_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/start_thread.h"

namespace forestall::daemon {

using exports::LogLevel;
using exports::LogLine;

Result<std::unique_ptr<KilledSignals>> KilledSignals::start(exports::Log& log, std::string address,
                                                            Duration retry) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno_error("eventfd", "signals of kills");
  std::unique_ptr<KilledSignals> signals(
      new KilledSignals(log, std::move(address), retry, std::move(wake)));
  signals->thread_ = TRY(start_thread("killed-signals", [raw = signals.get()] { raw->run(); }));
  return signals;
}

KilledSignals::~KilledSignals() {
  stopping_ = true;
  (void)::eventfd_write(wake_.get(), 1);  // fails only if it is readable already
  if (thread_.joinable()) thread_.join();
}

void KilledSignals::set_on(bool on) {
  if (on_.exchange(on) == on) return;
  (void)::eventfd_write(wake_.get(), 1);
}

void KilledSignals::send(const std::string& cgroup, bool for_swap) {
  if (!on_) return;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    is_full = waiting_.size() == kWaitingMax;
    if (!is_full) waiting_.push_back({cgroup, for_swap ? "memory-used" : "memory-pressure"});
  }
  if (is_full) {
    log_.write(LogLevel::warning, LogLine("managed-oom")
                                      .field("problem", "too many signals of kills wait")
                                      .field("not_sent", cgroup));
    return;
  }
  (void)::eventfd_write(wake_.get(), 1);
}

std::optional<std::string> KilledSignals::problem() const {
  if (!on_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return problem_;
}

void KilledSignals::run() {
  ::prctl(PR_SET_NAME, "killed-signals");
  while (!stopping_) {
    if (!on_) {
      signal_.reset();
      wait(-1);
      continue;
    }
    const auto connected = run_connected();
    if (connected) continue;
    signal_.reset();
    // What could not be sent at once is of no use later.
    (void)take_waiting();
    note_problem(connected.error().text());
    wait(static_cast<int>(retry_ / std::chrono::milliseconds(1)));
  }
}

// One wait for the bus, and what it brought.
Result<void> KilledSignals::run_connected() {
  if (!signal_) {
    signal_ = TRY(clients::KilledSignal::take_name(address_));
    note_problem("");
  }
  TRY(signal_->process());
  for (const Killed& each : take_waiting()) TRY(signal_->send(each.cgroup, each.reason));
  TRY(signal_->process());  // writes them
  wait(-1);
  return {};
}

void KilledSignals::wait(int milliseconds) const {
  std::array<pollfd, 2> fds{{{wake_.get(), POLLIN, 0}, {-1, 0, 0}}};
  if (signal_) fds[1] = {signal_->fd(), signal_->events(), 0};
  ::poll(fds.data(), fds.size(), milliseconds);
  eventfd_t ignored = 0;
  (void)::eventfd_read(wake_.get(), &ignored);  // fails if there was nothing
}

std::deque<KilledSignals::Killed> KilledSignals::take_waiting() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

// Once while it lasts.
void KilledSignals::note_problem(const std::string& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(problem_, problem) == problem || problem.empty()) return;
  }
  log_.write(LogLevel::warning, LogLine("managed-oom")
                                    .field("problem", problem)
                                    .field("effect", "no signal Killed is sent after a kill"));
}

void SignallingMarker::mark(actuators::ManagedOomMark mark) {
  if (mark.processes > 0) signals_.send(mark.victim.path, mark.for_swap);
  marker_.mark(std::move(mark));
}

}  // namespace forestall::daemon
