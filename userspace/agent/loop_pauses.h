// SPDX-License-Identifier: Apache-2.0
// When the loop's thread did not run: asleep because nothing was due, or stopped, or without a CPU.
// Thread rule: the loop's thread only.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace forestall::agent {

class LoopPauses {
 public:
  // Shorter than this is no pause.
  static constexpr Duration kPauseMin = std::chrono::milliseconds(250);

  struct Pause {
    MonotonicTime from;  // the loop last ran
    MonotonicTime due;   // it should have run again at the latest; not before `from`
    MonotonicTime to;    // it ran again
  };

  // A callback begins.
  void began(MonotonicTime now) {
    if (now - current_.from >= kPauseMin) last_ = {current_.from, current_.due, now};
  }
  // It ended. The next one is due at `due` at the latest.
  void ended(MonotonicTime now, MonotonicTime due) { current_ = {now, std::max(due, now), {}}; }

  // The pause before the callback that runs now.
  [[nodiscard]] Pause before(MonotonicTime now) const { return {current_.from, current_.due, now}; }
  // The pause that ends with a SIGCONT which is handled now. If the process was stopped while
  // epoll_wait(2) returned another event, that event is handled first.
  [[nodiscard]] Pause before_continued(MonotonicTime now) const {
    return now - last_.to < kPauseMin ? last_ : before(now);
  }

 private:
  Pause current_{};
  Pause last_{};  // the last one that was long enough
};

}  // namespace forestall::agent
