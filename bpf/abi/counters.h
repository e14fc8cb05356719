/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of the BPF programs. The kernel keeps one copy per CPU; userspace adds them up.
 *
 * Structs, metrics, `status` and `doctor` are generated from the X-macro lists. The alert and the
 * man page repeat the losses: tests/exports/alerts_test.cc compares. Recipe: CONTRIBUTING.md.
 */
#ifndef FORESTALL_BPF_ABI_COUNTERS_H
#define FORESTALL_BPF_ABI_COUNTERS_H

#include "bpf/abi/event.h"

/* X(name, loss): what a program did with an event, counted per event kind. `loss` is 1 when the
 * counter means that something was lost. */
#define ABI_EVENT_COUNTERS(X)           \
  X(emitted, 0) /* put into the ring */ \
  X(dropped, 1) /* the ring was full */ \
  X(quieted, 0) /* suppressed: the same event was emitted just now */

/* X(name): a helper call failed, a map was full or a bound was reached. Each is a loss. */
#define ABI_FAILURES(X)                                                         \
  X(read)       /* bpf_probe_read_kernel refused an address */                  \
  X(open_full)  /* open_stalls was full when a stall began */                   \
  X(stall_full) /* stalls was full when a cgroup stalled for the first time */  \
  X(depth)      /* a cgroup lies deeper than ABI_STALL_LEVELS or TREE_LEVELS */ \
  X(watch_full) /* relations or charged was full */                             \
  X(timer)      /* bpf_timer_start or bpf_loop refused */                       \
  X(stale)      /* the address of a watched cgroup was reused */                \
  X(setup)      /* the root memory cgroup or a NUMA node was not found */       \
  X(verdict)    /* what the kernel's OOM killer compared could not be kept */

/* X(name, loss): work of the usage timer. */
#define ABI_TIMER_COUNTERS(X)  \
  X(ticks, 0) /* timer runs */ \
  X(usages_read, 0)

enum abi_failure {
#define ABI_FAILURE_ENUM(name) ABI_FAILURE_##name,
  ABI_FAILURES(ABI_FAILURE_ENUM)
#undef ABI_FAILURE_ENUM
      ABI_FAILURE_COUNT
};

struct abi_counters {
#define ABI_EVENT_COUNTER_FIELD(name, loss) __u64 name[ABI_EVENT_KIND_COUNT];
  ABI_EVENT_COUNTERS(ABI_EVENT_COUNTER_FIELD)
#undef ABI_EVENT_COUNTER_FIELD
  __u64 failures[ABI_FAILURE_COUNT];
#define ABI_TIMER_COUNTER_FIELD(name, loss) __u64 name;
  ABI_TIMER_COUNTERS(ABI_TIMER_COUNTER_FIELD)
#undef ABI_TIMER_COUNTER_FIELD
};

#endif
