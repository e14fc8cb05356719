// SPDX-License-Identifier: Apache-2.0
// Detects processes that share one address space, using kcmp(2) where nothing else shows it. The
// kernel's OOM killer kills all processes that share the mm of its victim.
#pragma once

#include <sys/types.h>

#include <compare>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/process.h"
#include "sources/process_text.h"

namespace forestall::sources {

// Compares the address spaces of two processes. The order itself is arbitrary; only equality has a
// meaning. Error ESRCH: a process has exited. With any other error the answer is unknown.
using MemoryOrder = std::function<Result<std::strong_ordering>(pid_t, pid_t)>;

// kcmp(KCMP_VM). EPERM without PTRACE_MODE_READ on both: CAP_SYS_PTRACE, unless they have the user
// of this process and no capability that it lacks.
[[nodiscard]] Result<std::strong_ordering> kcmp_memory(pid_t a, pid_t b);

struct MemoryOwner {
  std::size_t sample = 0;  // index
  pid_t thread = 0;        // one that has the memory: the leader, unless it has exited
  MemoryLayout layout;
};

// Fills memory_id of the samples in `owners`, which all have memory: the pid of the first process
// that shares it. Compares only equal layouts, and n of these at a cost of log n each: a server's
// thousand workers may all have the same layout. 0: unknown. A process that may not be compared is
// unknown too, because it may share the memory of any other one.
void report_shared_memory(std::vector<ProcessSample>& samples, std::vector<MemoryOwner>& owners,
                          const MemoryOrder& compare);

}  // namespace forestall::sources
