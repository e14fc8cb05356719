// SPDX-License-Identifier: Apache-2.0
// When the kernel generated SIGKILL for a process, by the kernel's own trace: a witness that is
// independent of the agent. One thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::test {

class KillTrace {
 public:
  // Starts a trace instance of its own; needs CAP_SYS_ADMIN. Throws std::runtime_error.
  KillTrace();
  KillTrace(const KillTrace&) = delete;
  KillTrace& operator=(const KillTrace&) = delete;
  // Ends the trace.
  ~KillTrace();

  // The first SIGKILL for the process since the last clear(), to the microsecond; nothing if there
  // was none.
  [[nodiscard]] std::optional<MonotonicTime> killed_at(pid_t pid) const;
  // Forgets what was traced.
  void clear() const;

 private:
  void set(const char* file, const std::string& text) const;

  const std::string name_;
  UniqueFd instances_, instance_;  // directories of tracefs
};

}  // namespace forestall::test
