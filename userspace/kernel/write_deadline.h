// SPDX-License-Identifier: Apache-2.0
// Ends a write that makes the kernel reclaim in this thread (memory.reclaim, a memory.high below
// usage): both stop at a signal. The new memory.high is present from the begin of the write
// (mm/memcontrol.c memory_high_write), so nothing of it is lost.
#pragma once

#include <signal.h>
#include <time.h>

#include <optional>

#include "base/clock.h"

namespace forestall::kernel {

// Sends this thread a signal `limit` after its construction, and again until its destruction: the
// first one may come before the write. The signal has a handler that does nothing, and is blocked
// outside of the object's life. Without a timer (EAGAIN) nothing ends the write.
// Thread rule: destroyed on the thread that made it.
class WriteDeadline {
 public:
  explicit WriteDeadline(Duration limit);
  WriteDeadline(const WriteDeadline&) = delete;
  WriteDeadline& operator=(const WriteDeadline&) = delete;
  ~WriteDeadline();

 private:
  std::optional<timer_t> timer_;
  sigset_t before_{};
};

}  // namespace forestall::kernel
