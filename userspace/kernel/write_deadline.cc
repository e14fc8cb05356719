// SPDX-License-Identifier: Apache-2.0
#include "kernel/write_deadline.h"

#include <pthread.h>
#include <unistd.h>

namespace forestall::kernel {
namespace {

constexpr Duration kSignalEvery = std::chrono::milliseconds(10);

// No library of the agent uses real-time signals.
int signal_of_deadlines() {
  return SIGRTMIN + 6;
}

void do_nothing(int) {}

bool install_handler() {
  struct sigaction action {};
  action.sa_handler = do_nothing;  // without SA_RESTART
  return ::sigaction(signal_of_deadlines(), &action, nullptr) == 0;
}

sigset_t only_deadlines() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_of_deadlines());
  return set;
}

timespec in_timespec(Duration duration) {
  using std::chrono::seconds;
  return {static_cast<time_t>(duration / seconds(1)),
          static_cast<long>((duration % seconds(1)).count())};
}

}  // namespace

WriteDeadline::WriteDeadline(Duration limit) {
  // Its default action would end the agent.
  static const bool has_handler = install_handler();
  if (!has_handler) return;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal_of_deadlines();
  event._sigev_un._tid = ::gettid();
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return;
  timer_ = timer;
  const sigset_t ours = only_deadlines();
  pthread_sigmask(SIG_UNBLOCK, &ours, &before_);
  const itimerspec times{in_timespec(kSignalEvery), in_timespec(limit)};
  ::timer_settime(timer, 0, &times, nullptr);
}

WriteDeadline::~WriteDeadline() {
  if (!timer_) return;
  ::timer_delete(*timer_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace forestall::kernel
