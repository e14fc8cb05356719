// SPDX-License-Identifier: Apache-2.0
// What the agent asks of the kernel for itself, so that it can run and need not wait for memory
// when memory is short. Each call tries once and reports what it got, what was refused and why, and
// what is used instead; none of them is fatal.
//
// Measured (spec/bpf.md §5): crossing to SIGKILL takes at most 0.16 ms from a SCHED_FIFO thread
// under full CPU load, and up to 107 ms from a SCHED_OTHER one.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/feature.h"

namespace forestall::kernel {

inline constexpr int kRealTimePriority = 50;  // above ordinary work, below the kernel's own 99

// The calling thread to SCHED_FIFO 50 with SCHED_RESET_ON_FORK, so that no child and no thread
// made later inherits it. Instead: nice -20, or nothing. Call from the loop's thread.
[[nodiscard]] FeatureReport use_real_time(const FeatureSet& disabled);

// The calling thread to SCHED_FIFO 1, where that is permitted: for the threads that do for the loop
// what may block (writing the log, arming eventfds). They share a mutex with it for a few
// instructions; at ordinary priority, one that is preempted inside would hold up the loop for as
// long as a busy machine keeps it from the CPU (seen: 120 ms, and the kernel was there first).
void use_service_priority();

// The calling thread to SCHED_FIFO 51, above the loop, where that is permitted: for the one that
// acts when the loop does not.
void use_watchdog_priority();

// The soft limit on open files to the hard one: a watched workload costs about three descriptors, a
// victim two per process. Returns the limit then in force.
[[nodiscard]] Result<std::uint64_t> raise_file_limit();

// Makes the agent's own code and a heap reserve resident, then mlockall of what is mapped now and
// later, locked as it is touched (MCL_ONFAULT): code of libraries stays as the warm-up, which
// should follow, touches it. Call from the loop's thread. See kernel/residency.h.
[[nodiscard]] FeatureReport lock_memory(const FeatureSet& disabled);

// /proc/self/oom_score_adj to -1000 (never chosen by the kernel), else to -999. Children inherit
// it.
[[nodiscard]] FeatureReport lower_oom_score_adj(const FeatureSet& disabled);

}  // namespace forestall::kernel
