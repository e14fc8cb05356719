// SPDX-License-Identifier: Apache-2.0
// A child process made to be killed: probes and the warm-up of the kill path try their system
// calls on it, so that nothing else is ever at risk.
#pragma once

#include <sys/types.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

class ProbeChild {
 public:
  // Forks; the child touches `memory`, and then waits to be killed. Returns once it has touched
  // it. The child does nothing but system calls, so threads of the parent do not matter, and it
  // dies with the thread that made it.
  static Result<ProbeChild> start(Bytes memory);
  ProbeChild(ProbeChild&& other) noexcept;
  ProbeChild& operator=(ProbeChild&&) = delete;
  ProbeChild(const ProbeChild&) = delete;
  ProbeChild& operator=(const ProbeChild&) = delete;
  // Kills it if it still lives, and reaps it.
  ~ProbeChild();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for its end and reaps it; the wait status. ETIMEDOUT when it did not end in time.
  [[nodiscard]] Result<int> wait_end(Duration patience);

 private:
  explicit ProbeChild(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

}  // namespace forestall::kernel
