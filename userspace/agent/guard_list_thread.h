// SPDX-License-Identifier: Apache-2.0
// Prepares the guard's lists on a thread below the loop's priority: it ranks, opens cgroups, which
// waits for kernfs locks that any tenant takes, and approves processes, 0.05 ms each. The loop
// publishes what is done.
//
// A job passes to the thread and back; base/job_thread.h has the order of memory.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "exports/loop_counts.h"

namespace forestall::agent {

// The preparation of lists. What it reads and makes belongs to the thread until done().
class GuardListJob {
 public:
  GuardListJob() = default;
  GuardListJob(const GuardListJob&) = delete;
  GuardListJob& operator=(const GuardListJob&) = delete;
  virtual ~GuardListJob() = default;

  // ---- the loop's thread ----

  // Its result is not wanted any more. It may still run for a moment, and is not done() then.
  void cancel() { cancelled_ = true; }
  [[nodiscard]] bool done() const { return done_; }

 protected:
  // On the thread. Returns early once cancelled().
  virtual void run() = 0;
  [[nodiscard]] bool cancelled() const { return cancelled_; }

 private:
  friend class GuardListThread;
  std::atomic<bool> cancelled_{false};
  bool done_ = false;  // the loop's
};

// Thread rule: the loop's thread only.
class GuardListThread {
 public:
  // A job that runs so long is late: a list made from its evaluation has expired.
  static constexpr Duration kLateAfter = std::chrono::seconds(3);

  // `clock` and `counts` outlive it.
  static Result<std::unique_ptr<GuardListThread>> create(const Clock& clock,
                                                         exports::LoopCounts& counts);
  // Cancels what runs, and waits until the thread has noticed.
  ~GuardListThread();

  // Jobs run one at a time, in this order.
  void start(std::shared_ptr<GuardListJob> job);
  // Destroys what takes long, on the thread.
  void destroy(std::shared_ptr<const void> garbage);
  // Polls readable once collect() has something to do.
  [[nodiscard]] int fd() const { return thread_->fd(); }
  // Marks what the thread has done, and starts the next job. Free if there is nothing to do.
  void collect();

  // When the running job becomes late; nothing: there is none, or it is late already.
  [[nodiscard]] std::optional<MonotonicTime> late_due() const;
  // Counts the running job if it has become late. True: it is late.
  bool check_late();

 private:
  GuardListThread(const Clock& clock, exports::LoopCounts& counts)
      : clock_(clock), counts_(counts) {}
  void start_next();

  const Clock& clock_;
  exports::LoopCounts& counts_;
  MonotonicTime since_;  // when the running job was started
  bool late_ = false;    // that job is counted as late

  std::shared_ptr<GuardListJob> running_;  // the thread's while it runs
  std::deque<std::shared_ptr<GuardListJob>> waiting_;
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses running_
};

}  // namespace forestall::agent
