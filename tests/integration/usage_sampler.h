// SPDX-License-Identifier: Apache-2.0
// When a cgroup's memory usage reached a line, by readings every 0.5 ms at real-time priority: a
// witness that is independent of the agent.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/clock.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

inline constexpr Duration kSampledEach = std::chrono::microseconds(500);

// The bounds of a crossing: usage was below the line, and then not.
struct SeenCrossing {
  MonotonicTime below, reached;
};

class UsageSampler {
 public:
  UsageSampler(const ScratchCgroup& scratch, Bytes line)
      : line_(line),
        usage_(::open((scratch.directory(scratch.path()) + "/" +
                       (mounts().v1 ? "memory.usage_in_bytes" : "memory.current"))
                          .c_str(),
                      O_RDONLY | O_CLOEXEC)),
        pace_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    const sched_param first{50};
    const timespec each{0, kSampledEach.count()};
    const itimerspec periodic{each, each};
    if (!usage_ || ::timerfd_settime(pace_.get(), 0, &periodic, nullptr) != 0) {
      throw std::runtime_error("the sampler of usage needs a usage file and a timer");
    }
    thread_ = std::thread([this] { run(); });
    raised_ = ::pthread_setschedparam(thread_.native_handle(), SCHED_FIFO, &first) == 0;
  }
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;
  ~UsageSampler() {
    stop_ = true;
    thread_.join();
  }

  // Whether it has real-time priority. Without it, its bounds are wide.
  [[nodiscard]] bool is_raised() const { return raised_; }
  // Forgets the crossing. REQUIRES: usage is below the line.
  void rearm() { reached_ns_ = 0; }
  [[nodiscard]] std::optional<SeenCrossing> crossing() const {
    const std::int64_t reached = reached_ns_;
    if (reached == 0) return std::nullopt;
    return SeenCrossing{from_ns(below_ns_), from_ns(reached)};
  }

 private:
  void run() {
    std::uint64_t turns = 0;
    while (!stop_ && ::read(pace_.get(), &turns, sizeof turns) == sizeof turns) sample();
  }
  void sample() {
    if (reached_ns_ != 0) return;
    char text[32] = {};
    const std::int64_t before = to_ns(SystemClock().now());
    if (::pread(usage_.get(), text, sizeof text - 1, 0) <= 0) return;
    if (std::atoll(text) < line_.count) {
      below_ns_ = before;
    } else {
      reached_ns_ = to_ns(SystemClock().now());
    }
  }

  const Bytes line_;
  UniqueFd usage_, pace_;
  std::atomic<std::int64_t> below_ns_{to_ns(SystemClock().now())}, reached_ns_{0};
  std::atomic<bool> stop_{false};
  bool raised_ = false;
  std::thread thread_;  // uses the others
};

}  // namespace forestall::test
