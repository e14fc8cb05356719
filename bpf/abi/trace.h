/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the tracer's programs (bpf/trace.bpf.c) tell: one record for each thing that lasted, when it
 * ends, and sums of all of them, told or not. Plain C, included by the programs and by C++.
 */
#ifndef FORESTALL_BPF_ABI_TRACE_H
#define FORESTALL_BPF_ABI_TRACE_H

#include <linux/types.h>

#include "bpf/abi/assert.h"
#include "bpf/abi/event.h"

/* X(name): what a record is of. Those before oom_kill last, and are summed. */
#define ABI_TRACE_KINDS(X)                                                              \
  X(memcg_reclaim)  /* a task frees memory of a cgroup at its limit */                  \
  X(direct_reclaim) /* a task frees memory of the node because it can get none */       \
  X(kswapd)         /* kswapd frees memory of NUMA node `value`; nobody waits for it */ \
  X(stall)          /* a task waits for memory, as PSI counts it (full tier) */         \
  X(compaction)     /* a task moves pages, to have larger ones */                       \
  X(throttled)      /* a task that reclaims is made to wait; reason `value` */          \
  X(oom_kill)       /* struct abi_trace_oom_kill */                                     \
  X(path)           /* struct abi_trace_path: a cgroup appeared, or has another name */ \
  X(removed)        /* the cgroup was removed */

enum abi_trace_kind {
#define ABI_TRACE_ENUM(name) ABI_TRACE_##name,
  ABI_TRACE_KINDS(ABI_TRACE_ENUM)
#undef ABI_TRACE_ENUM
      ABI_TRACE_KIND_COUNT
};

/* Kinds that last and are summed. */
#define ABI_TRACE_SPANS ABI_TRACE_oom_kill

enum abi_trace_flag {
  ABI_TRACE_BEGIN = 1 << 0, /* it has begun: no length, no pages yet */
};

struct abi_trace_event {
  __u64 at_ns;     /* CLOCK_MONOTONIC: when it ended, or with ABI_TRACE_BEGIN began */
  __u64 length_ns; /* how long it lasted */
  __u64 cgroup;  /* kernfs id of the task's cgroup; oom_kill: the victim's; 0: none, or the root */
  __u64 subject; /* memcg_reclaim: of the cgroup whose limit is kept */
  /* Pages, of what reclaims: looked at and taken off the LRU lists of inactive pages, and freed.
   * The kernel counts one or the other of the first two as scanned, by which LRU it uses. */
  __u64 scanned;
  __u64 taken;
  __u64 reclaimed;
  __u32 kind;  /* enum abi_trace_kind */
  __u32 flags; /* enum abi_trace_flag */
  __s32 pid;   /* thread; oom_kill: the victim's process */
  __s32 tgid;  /* its process */
  __s32 value;
  __u32 pad;
  char comm[ABI_COMM_LENGTH]; /* NUL-terminated */
};

ABI_ASSERT(sizeof(struct abi_trace_event) == 96, "abi_trace_event has no hidden padding");

struct abi_trace_oom_kill {
  struct abi_trace_event event; /* of the victim */
  __s64 file_pages;             /* -1: not known, as the next three */
  __s64 anon_pages;
  __s64 shmem_pages;
  __s64 swap_pages;
  __s32 oom_score_adj;
  __u32 uid;
  __s32 killer_pid; /* the task that could not get memory */
  __s32 killer_tgid;
  char killer_comm[ABI_COMM_LENGTH];
};

ABI_ASSERT(sizeof(struct abi_trace_oom_kill) == 160, "abi_trace_oom_kill has no hidden padding");

/* Longer paths are cut. Kubernetes' are below 300. */
#define ABI_TRACE_PATH_LENGTH 512

struct abi_trace_path {
  struct abi_trace_event event;
  char path[ABI_TRACE_PATH_LENGTH]; /* in its hierarchy, NUL-terminated */
};

ABI_ASSERT(sizeof(struct abi_trace_path) == 96 + ABI_TRACE_PATH_LENGTH,
           "abi_trace_path has no hidden padding");

/* X(name): what could not be done. */
#define ABI_TRACE_FAILURES(X)                                        \
  X(read)      /* bpf_probe_read_kernel refused an address */        \
  X(open_full) /* no room for one more thread with something open */ \
  X(sum_full)  /* no room for one more cgroup's sums */              \
  X(unpaired)  /* an end whose begin was not seen, once the tracer had begun */

enum abi_trace_failure {
#define ABI_TRACE_FAILURE_ENUM(name) ABI_TRACE_FAILURE_##name,
  ABI_TRACE_FAILURES(ABI_TRACE_FAILURE_ENUM)
#undef ABI_TRACE_FAILURE_ENUM
      ABI_TRACE_FAILURE_COUNT
};

/* All of one kind, whether told or not. Pages count when they are seen, the rest when it ends. */
struct abi_trace_total {
  __u64 count;
  __u64 ns;
  __u64 scanned;
  __u64 taken;
  __u64 reclaimed;
  __u64 told;    /* records in the ring, begins left out */
  __u64 dropped; /* records the ring had no room for, begins too */
  __u64 passed;  /* not told: too short, or of a cgroup that was not asked for */
};

/* One per CPU in the kernel; userspace sums. */
struct abi_trace_totals {
  struct abi_trace_total kinds[ABI_TRACE_KIND_COUNT];
  __u64 failures[ABI_TRACE_FAILURE_COUNT];
};

/* Sums by cgroup and kind, of what passes the filters. Bucket i counts lengths of
 * [2^(i-1), 2^i) microseconds, the first one those below 1, the last one all that are longer. */
#define ABI_TRACE_BUCKETS 28

struct abi_trace_key {
  __u64 cgroup;
  __u32 kind;
  __u32 pad;
};

struct abi_trace_sum {
  __u64 count;
  __u64 ns;
  __u64 longest_ns;
  __u64 scanned;
  __u64 taken;
  __u64 reclaimed;
  __u32 buckets[ABI_TRACE_BUCKETS];
};

ABI_ASSERT(sizeof(struct abi_trace_key) == 16, "abi_trace_key has no hidden padding");
ABI_ASSERT(sizeof(struct abi_trace_sum) == 48 + 4 * ABI_TRACE_BUCKETS,
           "abi_trace_sum has no hidden padding");

/* Levels above a task's cgroup that are looked through for one that was asked for. */
#define ABI_TRACE_LEVELS 16
/* Cgroups that can be asked for. */
#define ABI_TRACE_WANTED 4096

#endif
