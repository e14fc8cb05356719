// SPDX-License-Identifier: Apache-2.0
#include "actuators/reaper_pool.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>

#include "actuators/group_kill_call.h"
#include "kernel/process_ref.h"

namespace forestall::actuators {
namespace {

// Between two attempts the thread waits for the process' end, at most this long. The causes of an
// EINVAL (another process of a shared mm, a core dump) end without an event of their own.
constexpr timespec kRetryWait{0, 1'000'000};
// After these attempts the thread takes the next job; the ladder submits this one again.
constexpr int kTriesPerJob = 20;
// While the pool stops.
constexpr int kRepeatInterruptMs = 20;
// Of a request to memory.reclaim: takes tens of milliseconds, or up to seconds with slow swap.
constexpr Bytes kReclaimPiece = mib(64);
constexpr std::size_t kStackBytes = 256 * 1024;

// Raises the counter of an eventfd. It cannot overflow: every count is a job or a report.
void raise_by(int fd, std::uint64_t count) {
  while (::write(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

// Decrements the counter of a non-blocking eventfd; false if it was 0.
bool take_count(int fd) {
  std::uint64_t count = 0;
  ssize_t size = 0;
  do {
    size = ::read(fd, &count, sizeof(count));
  } while (size < 0 && errno == EINTR);
  return size == sizeof(count);
}

bool worth_another_try(int code) {
  return code == EAGAIN || code == EINVAL || code == EINTR;
}

bool is_raised(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

// A signal without effect but EINTR: a write to memory.force_empty may take minutes in a large
// cgroup, and ends early only for a signal.
int interrupt_signal() {
  return SIGRTMIN;
}

void install_interrupt() {
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  ::sigaction(interrupt_signal(), &nothing, nullptr);
}

void accept_interrupts() {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, interrupt_signal());
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
}

ReapReport write_once(const ReapJob& job, std::string_view text, int stop) {
  ssize_t size = 0;
  do {
    size = ::write(job.target.get(), text.data(), text.size());
  } while (size < 0 && errno == EINTR && !is_raised(stop));
  if (size == static_cast<ssize_t>(text.size())) return {job.ticket, ReapResult::freed, 0};
  const int code = size < 0 ? errno : EIO;
  return {job.ticket, code == ENODEV ? ReapResult::gone : ReapResult::failed, code};
}

// memory.reclaim (v2) returns EAGAIN if it reclaimed less than requested: usage shows how much. The
// kernel checks for signals only between its steps, and one may be the whole request, so a request
// is written in pieces. memory.force_empty (v1) takes small steps and ignores the amount.
ReapReport reclaim(const ReapJob& job, int stop) {
  Bytes left = job.bytes;
  ReapReport done;
  do {
    const Bytes piece = std::min(left, kReclaimPiece);
    done = write_once(job, std::to_string(piece.count), stop);
    left = left - piece;
  } while (done.result == ReapResult::freed && left > Bytes{0} && !is_raised(stop));
  if (done.result == ReapResult::failed && done.code == EAGAIN) done.result = ReapResult::freed;
  return done;
}

}  // namespace

ReaperPool::ReaperPool(std::size_t capacity, UniqueFd queued, UniqueFd stop, UniqueFd ended,
                       UniqueFd reported)
    : queued_(std::move(queued)),
      stop_(std::move(stop)),
      ended_(std::move(ended)),
      reported_(std::move(reported)),
      jobs_(capacity),
      reports_(capacity) {}

Result<std::unique_ptr<ReaperPool>> ReaperPool::create(std::size_t threads, std::size_t capacity) {
  UniqueFd queued(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!queued) return errno_error("eventfd", "for the reaper's jobs");
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return errno_error("eventfd", "to stop the reaper");
  UniqueFd ended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!ended) return errno_error("eventfd", "for the reaper's end");
  UniqueFd reported(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!reported) return errno_error("eventfd", "for the reaper's reports");
  std::unique_ptr<ReaperPool> pool(new ReaperPool(capacity, std::move(queued), std::move(stop),
                                                  std::move(ended), std::move(reported)));
  install_interrupt();
  for (std::size_t i = 0; i < threads; ++i) TRY(pool->start_thread(i));
  return pool;
}

ReaperPool::~ReaperPool() {
  raise_by(stop_.get(), 1);
  // Interrupts repeatedly, because a signal before the call begins is lost.
  for (std::uint64_t ended = 0; ended < threads_.size();) {
    pollfd wait{ended_.get(), POLLIN, 0};
    if (::poll(&wait, 1, kRepeatInterruptMs) == 1 && take_count(ended_.get())) {
      ++ended;
      continue;
    }
    for (const pthread_t thread : threads_) pthread_kill(thread, interrupt_signal());
  }
  for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
}

Result<void> ReaperPool::start_thread(std::size_t index) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  // Without a parameter of its own, the attribute takes the creator's real-time priority, which is
  // invalid for SCHED_OTHER: EINVAL whenever the agent runs SCHED_FIFO.
  const sched_param ordinary{};
  pthread_attr_setschedparam(&attributes, &ordinary);
  // A thread inherits its creator's mask: with all signals blocked before, it never gets one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int code = pthread_create(&thread, &attributes, &ReaperPool::thread_entry, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (code != 0) return Error{code, "pthread_create for a reaper"};
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "forestall-reap%zu", index % 10);
  pthread_setname_np(thread, name.data());
  threads_.push_back(thread);
  return {};
}

void* ReaperPool::thread_entry(void* pool) {
  // Fails without CAP_SYS_NICE; the pool then is slower but correct.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -20);
  accept_interrupts();
  static_cast<ReaperPool*>(pool)->serve();
  raise_by(static_cast<ReaperPool*>(pool)->ended_.get(), 1);
  return nullptr;
}

void ReaperPool::serve() {
  for (;;) {
    std::array<pollfd, 2> waits{{{stop_.get(), POLLIN, 0}, {queued_.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    // Another reaper may have been faster.
    if (!take_count(queued_.get())) continue;
    ReapJob job;
    if (!take(job)) continue;
    const ReapReport done = run(job);
    // The loop frees what it allocated: a thread that is preempted with the allocator's lock would
    // make it wait.
    job.group.reset();
    report(done);
  }
}

bool ReaperPool::take(ReapJob& job) {
  const std::lock_guard lock(mutex_);
  if (job_count_ == 0) return false;
  job = std::move(jobs_[first_job_]);
  first_job_ = (first_job_ + 1) % jobs_.size();
  --job_count_;
  return true;
}

ReapReport ReaperPool::run(const ReapJob& job) const {
  if (job.call == ReapCall::mrelease) return reap(job);
  return job.call == ReapCall::reclaim ? reclaim(job, stop_.get()) : job.group->run(job.ticket);
}

ReapReport ReaperPool::reap(const ReapJob& job) const {
  int code = 0;
  for (int tries = 0; tries < kTriesPerJob; ++tries) {
    code = kernel::release_memory_of(job.target.get());
    if (code == 0) return {job.ticket, ReapResult::freed, 0};
    if (code == ESRCH) return {job.ticket, ReapResult::gone, code};
    if (!worth_another_try(code)) return {job.ticket, ReapResult::failed, code};
    std::array<pollfd, 2> waits{{{job.target.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    if (::ppoll(waits.data(), waits.size(), &kRetryWait, nullptr) <= 0) continue;
    if (waits[0].revents != 0) return {job.ticket, ReapResult::gone, code};
    break;
  }
  return {job.ticket, ReapResult::not_yet, code};
}

void ReaperPool::report(const ReapReport& done) {
  {
    const std::lock_guard lock(mutex_);
    reports_[report_count_++] = done;  // submit() keeps it below the capacity
  }
  raise_by(reported_.get(), 1);
}

bool ReaperPool::submit(ReapJob job) {
  if (outstanding_ == jobs_.size()) return false;
  {
    const std::lock_guard lock(mutex_);
    jobs_[(first_job_ + job_count_) % jobs_.size()] = std::move(job);
    ++job_count_;
  }
  ++outstanding_;
  raise_by(queued_.get(), 1);
  return true;
}

void ReaperPool::drain(std::vector<ReapReport>& reports) {
  if (!take_count(reported_.get())) return;
  const std::lock_guard lock(mutex_);
  reports.insert(reports.end(), reports_.begin(),
                 reports_.begin() + static_cast<std::ptrdiff_t>(report_count_));
  outstanding_ -= report_count_;
  report_count_ = 0;
}

}  // namespace forestall::actuators
