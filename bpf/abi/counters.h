/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs did and what they could not do. One per CPU in the kernel; userspace sums.
 * Nothing is ever dropped without one of these moving.
 */
#ifndef FORESTALL_BPF_ABI_COUNTERS_H
#define FORESTALL_BPF_ABI_COUNTERS_H

#include "bpf/abi/event.h"

/* X(name): a helper that failed, a map that was full, a bound that was met. */
#define ABI_FAILURES(X)                                                       \
  X(read)       /* bpf_probe_read_kernel refused an address */                \
  X(open_full)  /* no room for one more stall that began */                   \
  X(stall_full) /* no room for one more cgroup's stall sums */                \
  X(depth)      /* a cgroup lies deeper than ABI_STALL_LEVELS */              \
  X(watch_full) /* no room for a watched cgroup or one of its ancestors */    \
  X(timer)      /* bpf_timer_start or bpf_loop refused */                     \
  X(stale)      /* a watched cgroup's memory now belongs to something else */ \
  X(setup)      /* the root memory cgroup or the NUMA nodes were not found */

enum abi_failure {
#define ABI_FAILURE_ENUM(name) ABI_FAILURE_##name,
  ABI_FAILURES(ABI_FAILURE_ENUM)
#undef ABI_FAILURE_ENUM
      ABI_FAILURE_COUNT
};

struct abi_counters {
  __u64 emitted[ABI_EVENT_KIND_COUNT]; /* events put into the ring */
  __u64 dropped[ABI_EVENT_KIND_COUNT]; /* events the ring had no room for */
  __u64 quieted[ABI_EVENT_KIND_COUNT]; /* not told because one like it had just been */
  __u64 failures[ABI_FAILURE_COUNT];
  __u64 ticks; /* runs of the usage timer */
  __u64 looks; /* usages it read */
};

#endif
