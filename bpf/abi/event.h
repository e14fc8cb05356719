/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The events that the BPF programs emit to userspace through the ring buffer. The programs (C) and
 * the agent (C++) include this file; the bytes are described nowhere else.
 */
#ifndef FORESTALL_BPF_ABI_EVENT_H
#define FORESTALL_BPF_ABI_EVENT_H

#include <linux/types.h>

#include "bpf/abi/assert.h"

/* X(kind, wakes): `wakes` is 1 if the event wakes userspace at once, 0 if it stays in the ring
 * until userspace drains it for another reason. */
#define ABI_EVENT_KINDS(X)                                                        \
  X(usage_timer, 1)     /* the timer read a watched usage at or above its line */ \
  X(charge, 1)          /* a charge took a watched cgroup to or above its line */ \
  X(reclaim, 1)         /* reclaim began in, above or below a watched cgroup */   \
  X(kswapd, 1)          /* kswapd of node `value` woke */                         \
  X(stall, 1)           /* a watched cgroup stalled longer than the limit */      \
  X(oom_kill, 1)        /* the kernel OOM killer marked a victim */               \
  X(oom_last_call, 1)   /* the kernel is about to choose a victim */              \
  X(oom_score_adj, 0)   /* a process' oom_score_adj was written */                \
  X(workload_change, 1) /* a cgroup appeared, was removed or filled */

enum abi_event_kind {
#define ABI_EVENT_ENUM(name, wakes) ABI_EVENT_##name,
  ABI_EVENT_KINDS(ABI_EVENT_ENUM)
#undef ABI_EVENT_ENUM
      ABI_EVENT_KIND_COUNT
};

#define ABI_COMM_LENGTH 16

/* Fields that a kind does not name stay 0. */
struct abi_event {
  __u64 at_ns;      /* CLOCK_MONOTONIC */
  __u64 cgroup;     /* kernfs id of the subject in the memory hierarchy; 0: the node */
  __u64 usage;      /* bytes: usage_timer, charge */
  __u64 line;       /* bytes: usage_timer, charge; the line that was crossed */
  __u64 read_ns;    /* usage_timer, charge: the timer's last reading below a line; 0: none */
  __u64 read_usage; /* bytes: usage_timer, charge; what it read */
  __u64 stalled_ns; /* stall: summed over the window that led to the event */
  __u32 kind;       /* enum abi_event_kind */
  __s32 pid;        /* thread: reclaim and oom_last_call the current one, else the subject */
  __s32 tgid;       /* its process */
  __u32 uid;        /* oom_kill: real uid of the victim in the initial user namespace */
  __s32 value;      /* kswapd: NUMA node; oom_kill, oom_score_adj: the adjustment;
                       workload_change: enum abi_workload_change */
  __u32 pad;
  char comm[ABI_COMM_LENGTH]; /* oom_kill, oom_score_adj; NUL-terminated */
};

enum abi_workload_change {
  ABI_WORKLOAD_APPEARED = 1,
  ABI_WORKLOAD_VANISHED,
  ABI_WORKLOAD_FILLED,
};

ABI_ASSERT(sizeof(struct abi_event) == 96, "abi_event is 96 bytes without hidden padding");

#endif
