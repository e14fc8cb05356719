// SPDX-License-Identifier: Apache-2.0
#include "actuators/unit_restarter.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "clients/unit_restart.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {
namespace {

// The loop takes results at each evaluation of rulesets; more than this are dropped.
constexpr std::size_t kRestartResultsMax = 256;

}  // namespace

Result<void> UnitRestarter::start() {
  return Error{ENOTSUP, "systemd does not run here (/run/systemd/system does not exist)"};
}

Result<void> UnitRestarterThread::start() {
  if (thread_.joinable()) return {};
  changed_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  stopped_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed_ || !stopped_) return errno_error("eventfd", "for restarts of units");
  const base::BlockedSignals none_for_the_thread;
  thread_ = TRY(start_thread("forestall-units", [this] { serve(); }));
  return {};
}

UnitRestarterThread::~UnitRestarterThread() {
  if (!thread_.joinable()) return;
  ::eventfd_write(stopped_.get(), 1);  // also ends a wait for systemd
  thread_.join();
}

void UnitRestarterThread::restart(const std::string& unit) {
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (unit == under_way_ || std::ranges::find(waiting_, unit, &Waiting::unit) != waiting_.end()) {
      return;
    }
    is_full = waiting_.size() == kWaitingMax;
    if (!is_full) waiting_.push_back({unit, SystemClock().now()});
  }
  if (is_full) add_result({unit, Duration{0}, Error{EBUSY, "too many restarts wait"}});
  if (changed_) ::eventfd_write(changed_.get(), 1);
}

void UnitRestarterThread::cancel() {
  const std::lock_guard lock(mutex_);
  for (const Waiting& each : waiting_) {
    keep_result({each.unit, Duration{0}, Error{ECANCELED, "not begun: a reload dropped it"}});
  }
  waiting_.clear();
}

std::vector<UnitRestartResult> UnitRestarterThread::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

bool UnitRestarterThread::is_stopped() const {
  pollfd stopped{stopped_.get(), POLLIN, 0};
  return ::poll(&stopped, 1, 0) > 0;
}

std::string UnitRestarterThread::take_next() {
  const std::lock_guard lock(mutex_);
  const MonotonicTime now = SystemClock().now();
  while (!waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (now - next.since <= wait_max_) {
      under_way_ = std::move(next.unit);
      break;
    }
    keep_result({next.unit, Duration{0},
                 Error{ESTALE, "not begun: it waited too long for the restart of another unit"}});
  }
  return under_way_;
}

void UnitRestarterThread::add_result(UnitRestartResult result) {
  const std::lock_guard lock(mutex_);
  keep_result(std::move(result));
}

// In one step: the loop may request the unit again as soon as it has the result.
void UnitRestarterThread::end(UnitRestartResult result) {
  const std::lock_guard lock(mutex_);
  under_way_.clear();
  keep_result(std::move(result));
}

void UnitRestarterThread::keep_result(UnitRestartResult result) {
  if (results_.size() < kRestartResultsMax) results_.push_back(std::move(result));
}

void UnitRestarterThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-units");
  kernel::use_ordinary_priority();
  const SystemClock clock;
  for (;;) {
    std::array<pollfd, 2> fds{{{stopped_.get(), POLLIN, 0}, {changed_.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) return;
    eventfd_t ignored = 0;
    ::eventfd_read(changed_.get(), &ignored);
    for (std::string unit = take_next(); !unit.empty(); unit = take_next()) {
      const MonotonicTime begun = clock.now();
      const auto ended =
          clients::restart_unit(unit, {.bus_address = bus_address_, .cancelled = stopped_.get()});
      if (is_stopped()) return;
      end({unit, clock.now() - begun, ended.failure, ended.begun});
    }
  }
}

}  // namespace forestall::actuators
