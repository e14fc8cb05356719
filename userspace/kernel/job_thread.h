// SPDX-License-Identifier: Apache-2.0
// A thread that does one job at a time for the loop: started without waiting, its end told by a
// descriptor. For what may take seconds, such as asking a container runtime.
//
// The two sides share one word of state: no lock that a preempted thread of ordinary priority could
// hold against a loop that runs at real time. It also says whose the job's data is: the starter's
// while idle and over, the job's while running.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

// Thread rule: every call from one thread, the loop's; none of them waits but the destructor.
class JobThread {
 public:
  // `job` runs on the thread, once for each start(). `name` shows in ps, at most 15 characters.
  static Result<std::unique_ptr<JobThread>> create(const char* name, std::function<void()> job);
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  // Raises stop_fd() and waits for the job to notice.
  ~JobThread();

  // False, and nothing is begun, unless it is idle.
  [[nodiscard]] bool start();
  [[nodiscard]] bool running() const { return state_.load() == State::running; }
  // Polls readable from the end of a job until finish().
  [[nodiscard]] int fd() const { return done_.get(); }
  // Whether a job is over, which makes the thread idle again.
  [[nodiscard]] bool finish();
  // Polls readable once the thread is to end: a job that waits gives up then.
  [[nodiscard]] int stop_fd() const { return stop_.get(); }

 private:
  enum class State : std::uint8_t { idle, running, over };

  JobThread(std::function<void()> job, UniqueFd started, UniqueFd stop, UniqueFd done);
  [[nodiscard]] Result<void> begin(const char* name);
  void serve();

  const std::function<void()> job_;
  const UniqueFd started_;
  const UniqueFd stop_;
  const UniqueFd done_;
  std::atomic<State> state_{State::idle};
  std::thread thread_;  // last: serve() uses all of the above
};

}  // namespace forestall::kernel
