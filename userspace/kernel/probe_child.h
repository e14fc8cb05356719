// SPDX-License-Identifier: Apache-2.0
// A child process for trials: probes and the warm-up of the kill path kill it, so that no other
// process is at risk.
#pragma once

#include <sys/types.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

class ProbeChild {
 public:
  // Forks a child that touches `memory` and then waits to be killed. Returns once the child has
  // touched it. The child makes only system calls, so other threads of the parent do not matter. It
  // dies with the thread that started it.
  static Result<ProbeChild> start(Bytes memory);
  ProbeChild(ProbeChild&& other) noexcept;
  ProbeChild& operator=(ProbeChild&&) = delete;
  ProbeChild(const ProbeChild&) = delete;
  ProbeChild& operator=(const ProbeChild&) = delete;
  // Kills it if it still runs, and reaps it.
  ~ProbeChild();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits until it ends, reaps it and returns the wait status. ETIMEDOUT: it did not end in time.
  [[nodiscard]] Result<int> wait_end(Duration patience);

 private:
  explicit ProbeChild(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

}  // namespace forestall::kernel
