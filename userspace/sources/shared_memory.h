// SPDX-License-Identifier: Apache-2.0
// Which processes share one address space, where only kcmp(2) can tell: the kernel's OOM killer
// ends all that share the mm of its victim.
#pragma once

#include <sys/types.h>

#include <compare>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/process.h"
#include "sources/process_text.h"

namespace forestall::sources {

// How the address spaces of two processes compare, in an order of their own that means nothing but
// "the same" and "not the same". Nothing: it may not be asked, or one of them is gone.
using MemoryOrder = std::function<std::optional<std::strong_ordering>(pid_t, pid_t)>;

// kcmp(KCMP_VM). Needs PTRACE_MODE_READ on both.
[[nodiscard]] std::optional<std::strong_ordering> kcmp_memory(pid_t a, pid_t b);

struct MemoryOwner {
  std::size_t sample = 0;  // index
  pid_t thread = 0;        // one that has the memory: the leader, unless it has exited
  MemoryLayout layout;
};

// Fills memory_id of the samples that `owners` lists, which all have memory: the pid of the first
// of those that share it. Only those with an equal layout are compared, of n such each with log n:
// a server's thousand workers have all the same one. 0 where it cannot be told.
void tell_shared_memory(std::vector<ProcessSample>& samples, std::vector<MemoryOwner>& owners,
                        const MemoryOrder& compare);

}  // namespace forestall::sources
