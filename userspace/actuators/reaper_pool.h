// SPDX-License-Identifier: Apache-2.0
// Threads for the calls of a kill that may block, so that the loop never does: process_mrelease,
// opening and writing cgroup.kill, and the writes to memory.reclaim and memory.force_empty.
//
// A dying process frees its own memory on its own CPU time. At nice 19 on a busy CPU that took more
// than a minute for 2 GiB; with process_mrelease from another thread it took 0.2 s. The threads are
// SCHED_OTHER with the highest permitted nice priority: freeing gigabytes at real-time priority
// would starve the machine.
//
// cgroup.kill takes the kernel's global cgroup lock (kernel/cgroup/cgroup.c cgroup_kill_write,
// cgroup_kn_lock_live). A cgroup_mkdir may hold it while it reclaims for its allocations. A
// real-time loop that waited for the lock could not react during that time.
//
// Nothing is allocated after create(): the queues are rings of a fixed capacity, because this code
// runs when memory is short.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::actuators {

enum class ReapCall : std::uint8_t {
  mrelease,    // process_mrelease on a pidfd, until nothing is left
  group_kill,  // `group` (group_kill_call.h), once
  reclaim,     // `bytes` written to memory.reclaim (v2), or 0 to memory.force_empty (v1), once
};

struct GroupKillCall;

// One dying process, or one cgroup. The pool owns the descriptor from submit() on.
struct ReapJob {
  std::uint64_t ticket = 0;  // returned in the report
  UniqueFd target = {};      // a pidfd, or an open file of a reclaim
  ReapCall call = ReapCall::mrelease;
  Bytes bytes = {};  // of reclaim
  std::shared_ptr<GroupKillCall> group = {};
};

enum class ReapResult : std::uint8_t {
  freed,    // its memory was unmapped; cgroup.kill: all its processes were signalled; reclaim: the
            // kernel tried
  gone,     // nothing was left (ESRCH, or it exited meanwhile; ENODEV, the cgroup was removed)
  other,    // the group is not the victim's, and was left alone
  not_yet,  // still EAGAIN, EINTR or EINVAL after all attempts: worth another job
  failed,   // see `code`
};

struct ReapReport {
  std::uint64_t ticket = 0;
  ReapResult result = ReapResult::gone;
  int code = 0;  // errno of the last call
};

// Thread rule: all calls come from one thread, the loop's.
class ReaperPool {
 public:
  // `capacity` is the number of jobs that may be queued, running or reported but not drained.
  static Result<std::unique_ptr<ReaperPool>> create(std::size_t threads, std::size_t capacity);
  ReaperPool(const ReaperPool&) = delete;
  ReaperPool& operator=(const ReaperPool&) = delete;
  // Waits for running calls, and interrupts reclaim, which may take minutes; queued jobs are
  // dropped.
  ~ReaperPool();

  // False when the pool is full: the job is dropped and its descriptor closed.
  [[nodiscard]] bool submit(ReapJob job);
  // Polls readable while reports wait.
  [[nodiscard]] int fd() const { return reported_.get(); }
  // Appends all waiting reports.
  void drain(std::vector<ReapReport>& reports);
  [[nodiscard]] std::size_t threads() const { return threads_.size(); }

 private:
  ReaperPool(std::size_t capacity, UniqueFd queued, UniqueFd stop, UniqueFd ended,
             UniqueFd reported);
  Result<void> start_thread(std::size_t index);
  static void* thread_entry(void* pool);
  void serve();
  [[nodiscard]] bool take(ReapJob& job);
  void report(const ReapReport& done);
  [[nodiscard]] ReapReport run(const ReapJob& job) const;
  [[nodiscard]] ReapReport reap(const ReapJob& job) const;

  // Constant after create().
  const UniqueFd queued_;    // eventfd semaphore: one count per queued job
  const UniqueFd stop_;      // eventfd, readable once the destructor runs
  const UniqueFd ended_;     // eventfd semaphore: one count per thread that has ended
  const UniqueFd reported_;  // eventfd, readable while reports wait
  std::vector<pthread_t> threads_;

  // Used by the loop only: jobs submitted and not yet drained.
  std::size_t outstanding_ = 0;

  base::PriorityMutex mutex_;  // guards the rings below
  std::vector<ReapJob> jobs_;
  std::size_t first_job_ = 0, job_count_ = 0;
  std::vector<ReapReport> reports_;
  std::size_t report_count_ = 0;
};

}  // namespace forestall::actuators
