// SPDX-License-Identifier: Apache-2.0
// Threads for the calls of a kill that may wait, so that the loop never does: process_mrelease, and
// the write to cgroup.kill.
//
// A dying process frees its own memory, on its own CPU time: at nice 19 on a busy CPU that took
// more than a minute for 2 GiB, and 0.2 s with process_mrelease from elsewhere (spec/bpf.md §5).
// The threads are SCHED_OTHER with the highest nice they may have: freeing gigabytes at real-time
// priority would starve the very machine that is being rescued.
//
// cgroup.kill takes the kernel's one cgroup lock (kernel/cgroup/cgroup.c cgroup_kill_write,
// cgroup_kn_lock_live), which a cgroup_mkdir may hold while it reclaims for its allocations: a loop
// at real-time priority that waited for it would be blind for as long.
//
// Nothing is allocated after create(): the queues are rings of a fixed capacity, because this runs
// when memory is short.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "actuators/priority_mutex.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::actuators {

enum class ReapCall : std::uint8_t {
  mrelease,     // process_mrelease on a pidfd, until nothing is left
  cgroup_kill,  // "1" written to a descriptor of cgroup.kill, once
};

// One dying process, or one cgroup to be killed. The pool owns the descriptor from submit() on.
struct ReapJob {
  std::uint64_t ticket = 0;  // given back in the report
  UniqueFd target;           // a pidfd, or an open cgroup.kill
  ReapCall call = ReapCall::mrelease;
  // A cgroup.kill that comes to its turn later than this is not written (ETIME): by then somebody
  // else may live there.
  MonotonicTime not_after = MonotonicTime::max();
};

enum class ReapResult : std::uint8_t {
  freed,    // its memory was unmapped; cgroup.kill: all in it were signalled
  gone,     // nothing was left (ESRCH, or it exited meanwhile; ENODEV, the cgroup was removed)
  not_yet,  // still EAGAIN, EINTR or EINVAL after all tries: worth another job
  failed,   // refused: `code` says why
};

struct ReapReport {
  std::uint64_t ticket = 0;
  ReapResult result = ReapResult::gone;
  int code = 0;  // errno of the last call
};

// Thread rule: every call from one thread, the loop's.
class ReaperPool {
 public:
  // `capacity` is the number of jobs that may be queued, running or reported but not drained.
  static Result<std::unique_ptr<ReaperPool>> create(std::size_t threads, std::size_t capacity);
  ReaperPool(const ReaperPool&) = delete;
  ReaperPool& operator=(const ReaperPool&) = delete;
  // Waits for calls that are running; queued jobs are dropped.
  ~ReaperPool();

  // False when the pool is full: the job is dropped and its descriptor closed.
  [[nodiscard]] bool submit(ReapJob job);
  // Polls readable while reports wait.
  [[nodiscard]] int fd() const { return reported_.get(); }
  // Appends all waiting reports.
  void drain(std::vector<ReapReport>& reports);
  [[nodiscard]] std::size_t threads() const { return threads_.size(); }

 private:
  ReaperPool(std::size_t capacity, UniqueFd queued, UniqueFd stop, UniqueFd reported);
  Result<void> start_thread(std::size_t index);
  static void* thread_entry(void* pool);
  void serve();
  [[nodiscard]] bool take(ReapJob& job);
  void report(const ReapReport& done);
  [[nodiscard]] ReapReport run(const ReapJob& job) const;
  [[nodiscard]] ReapReport reap(const ReapJob& job) const;

  // Constant after create().
  const UniqueFd queued_;    // eventfd semaphore: one count per queued job
  const UniqueFd stop_;      // eventfd, readable from the destructor on
  const UniqueFd reported_;  // eventfd, readable while reports wait
  std::vector<pthread_t> threads_;

  // The loop's alone: jobs submitted and not yet drained.
  std::size_t outstanding_ = 0;

  PriorityMutex mutex_;  // guards the rings below
  std::vector<ReapJob> jobs_;
  std::size_t first_job_ = 0, job_count_ = 0;
  std::vector<ReapReport> reports_;
  std::size_t report_count_ = 0;
};

}  // namespace forestall::actuators
