// SPDX-License-Identifier: Apache-2.0
#include "base/job_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <array>
#include <utility>

#include "base/start_thread.h"

namespace forestall::base {

JobThread::JobThread(const char* name, std::function<void()> job, UniqueFd started, UniqueFd stop,
                     UniqueFd done)
    : name_(name),
      job_(std::move(job)),
      started_(std::move(started)),
      stop_(std::move(stop)),
      done_(std::move(done)) {}

Result<std::unique_ptr<JobThread>> JobThread::prepare(const char* name, std::function<void()> job) {
  std::array<UniqueFd, 3> events;
  for (auto& each : events) {
    each.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!each) return errno_error("eventfd", name);
  }
  return std::unique_ptr<JobThread>(new JobThread(name, std::move(job), std::move(events[0]),
                                                  std::move(events[1]), std::move(events[2])));
}

Result<std::unique_ptr<JobThread>> JobThread::create(const char* name, std::function<void()> job) {
  auto made = TRY(prepare(name, std::move(job)));
  TRY(made->begin());
  return made;
}

JobThread::~JobThread() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

Result<void> JobThread::begin() {
  if (thread_.joinable()) return {};
  // A thread inherits the signal mask of its creator, so signals blocked here never reach it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto made = start_thread(name_, [this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  thread_ = TRY(std::move(made));
  pthread_setname_np(thread_.native_handle(), name_);
  return {};
}

void JobThread::serve() {
  for (;;) {
    std::array<pollfd, 2> waits{{{stop_.get(), POLLIN, 0}, {started_.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    eventfd_t count = 0;
    ::eventfd_read(started_.get(), &count);
    job_();
    state_.store(State::over);
    ::eventfd_write(done_.get(), 1);
  }
}

bool JobThread::start() {
  if (state_.load() != State::idle) return false;
  state_.store(State::running);
  ::eventfd_write(started_.get(), 1);
  return true;
}

bool JobThread::finish() {
  // The thread stores the state before it raises the event, so a loop that wakes finds the job
  // over. The event is cleared first: a check between the two steps costs one extra wake-up at
  // most.
  eventfd_t count = 0;
  ::eventfd_read(done_.get(), &count);
  if (state_.load() != State::over) return false;
  state_.store(State::idle);
  return true;
}

}  // namespace forestall::base
