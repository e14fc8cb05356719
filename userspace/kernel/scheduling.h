// SPDX-License-Identifier: Apache-2.0
// Scheduling, memory locking and limits of the agent itself, so that it runs and does not wait for
// memory when memory is short. Each call tries once and reports the result, the reason of a refusal
// and the replacement; no failure is fatal.
//
// Measured on 6.18 with 2 CPUs under full load: from a crossing to SIGKILL a SCHED_FIFO thread
// takes at most 0.16 ms, a SCHED_OTHER thread up to 107 ms.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/feature.h"

namespace forestall::kernel {

inline constexpr int kRealTimePriority = 50;  // above ordinary work, below the kernel's own 99

// Sets the calling thread to SCHED_FIFO 50 with SCHED_RESET_ON_FORK, so that no later child or
// thread inherits it. Replacement: nice -20, or nothing. Call from the loop's thread.
[[nodiscard]] FeatureReport use_real_time(const FeatureSet& disabled);

// Sets the calling thread to SCHED_FIFO 1 if permitted and not disabled by use_real_time(): for
// threads that do blocking work for the loop (the log, arming of eventfds). They hold a mutex that
// the loop shares for a few instructions. At ordinary priority a thread that is preempted there
// delays the loop (measured on a busy host: 120 ms, and the kernel's OOM killer acted first).
void use_service_priority();

// Sets the calling thread to SCHED_OTHER: for threads that wait for reclaim or other programs. A
// service manager may have given the agent a real-time policy that threads inherit.
void use_ordinary_priority();

// Sets the calling thread to SCHED_FIFO 51, above the loop, if permitted: for the watchdog, which
// acts if the loop hangs.
void use_watchdog_priority();

// Raises the soft limit on open files to the hard one: a watched workload needs about three
// descriptors, a victim two per process. Returns the new limit.
[[nodiscard]] Result<std::uint64_t> raise_file_limit();

// Open files that the table of descriptors is given room for: those of 10,000 workloads, twice
// (sources/held_tree.h). Takes 1056 KiB of kernel memory.
inline constexpr std::uint64_t kDescriptorTable = 131072;

// Makes room for `wanted` descriptors in the table of this process, at most for the soft limit on
// open files. Returns the number that fits. REQUIRES: this process has one thread.
//
// If a process with threads outgrows its table, the open() that does so waits for an RCU grace
// period (fs/file.c expand_fdtable()). Measured in the loop near a line: 14 to 52 ms.
[[nodiscard]] Result<std::uint64_t> grow_descriptor_table(std::uint64_t wanted);

// Makes the agent's own code and a heap reserve resident, then calls mlockall with MCL_ONFAULT,
// which locks each page when it is touched. The warm-up should follow: it touches the code of
// libraries that must stay. Call from the loop's thread. See kernel/residency.h.
[[nodiscard]] FeatureReport lock_memory(const FeatureSet& disabled);

// Sets /proc/self/oom_score_adj to -1000, with which the kernel never chooses the agent, or else to
// -999. Children inherit it.
[[nodiscard]] FeatureReport lower_oom_score_adj(const FeatureSet& disabled);

}  // namespace forestall::kernel
