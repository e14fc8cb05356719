// SPDX-License-Identifier: Apache-2.0
// A thread that runs one job at a time for the loop. start() does not wait, and a descriptor
// signals the end. For jobs that may take seconds, such as a request to a container runtime.
//
// The two threads share one atomic word of state and no lock: a preempted thread of ordinary
// priority could otherwise hold the lock while the real-time loop waits. The state also defines the
// owner of the job's data: the starter while idle and over, the job while running.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::base {

// Thread rule: every call from one thread, the loop's. Only the destructor waits.
class JobThread {
 public:
  // `job` runs on the thread once for each start(). ps shows `name`, at most 15 characters.
  static Result<std::unique_ptr<JobThread>> create(const char* name, std::function<void()> job);
  // The same, without its thread: begin() starts that. `name` outlives the object.
  static Result<std::unique_ptr<JobThread>> prepare(const char* name, std::function<void()> job);
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  // Raises stop_fd() and waits until the job has ended.
  ~JobThread();

  // Starts the thread if it does not run yet.
  [[nodiscard]] Result<void> begin();
  // Starts the job; false if the thread is not idle. REQUIRES: the thread was started.
  [[nodiscard]] bool start();
  [[nodiscard]] bool running() const { return state_.load() == State::running; }
  // Polls readable from the end of a job until finish().
  [[nodiscard]] int fd() const { return done_.get(); }
  // Returns whether a job is over, and makes the thread idle again.
  [[nodiscard]] bool finish();
  // Polls readable once the thread must end: a job that waits gives up then.
  [[nodiscard]] int stop_fd() const { return stop_.get(); }

 private:
  enum class State : std::uint8_t { idle, running, over };

  JobThread(const char* name, std::function<void()> job, UniqueFd started, UniqueFd stop,
            UniqueFd done);
  void serve();

  const char* const name_;
  const std::function<void()> job_;
  const UniqueFd started_;
  const UniqueFd stop_;
  const UniqueFd done_;
  std::atomic<State> state_{State::idle};
  std::thread thread_;  // last: serve() uses all of the above
};

}  // namespace forestall::base
