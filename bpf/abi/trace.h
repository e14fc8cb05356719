/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The output of the tracer's programs (bpf/trace.bpf.c): one record for each span when it ends, and
 * sums over all spans, whether recorded or not. The programs (C) and userspace (C++) include it.
 */
#ifndef FORESTALL_BPF_ABI_TRACE_H
#define FORESTALL_BPF_ABI_TRACE_H

#include <linux/types.h>

#include "bpf/abi/assert.h"
#include "bpf/abi/event.h"

/* X(name): kind of a record. Those before oom_kill are spans: they last, and are summed. */
#define ABI_TRACE_KINDS(X)                                                               \
  X(memcg_reclaim)  /* a task frees memory of a cgroup at its limit */                   \
  X(direct_reclaim) /* a task frees memory of the node because an allocation failed */   \
  X(kswapd)         /* kswapd frees memory of NUMA node `value`; no task waits for it */ \
  X(stall)          /* a task waits for memory, as PSI counts it (full tier) */          \
  X(compaction)     /* a task moves pages to form larger free blocks */                  \
  X(throttled)      /* the kernel delays a reclaiming task; reason `value` */            \
  X(oom_kill)       /* struct abi_trace_oom_kill */                                      \
  X(path)           /* struct abi_trace_path: a cgroup appeared or was renamed */        \
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
  ABI_TRACE_BEGIN = 1 << 0, /* the span has begun: no length and no pages yet */
};

struct abi_trace_event {
  __u64 at_ns; /* CLOCK_MONOTONIC: when it ended, or with ABI_TRACE_BEGIN began */
  __u64 length_ns;
  __u64 cgroup;  /* kernfs id of the task's cgroup; oom_kill: the victim's; 0: none, or the root */
  __u64 subject; /* memcg_reclaim: kernfs id of the cgroup whose limit causes the reclaim */
  /* Pages of reclaim kinds: scanned on and taken off the LRU lists of inactive pages, and freed.
   * The kernel counts one of the first two as scanned, depending on the LRU in use. */
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
  __s64 file_pages;             /* -1: unknown; likewise the next three */
  __s64 anon_pages;
  __s64 shmem_pages;
  __s64 swap_pages;
  __s32 oom_score_adj;
  __u32 uid;
  __s32 killer_pid; /* the task whose allocation failed */
  __s32 killer_tgid;
  char killer_comm[ABI_COMM_LENGTH];
};

ABI_ASSERT(sizeof(struct abi_trace_oom_kill) == 160, "abi_trace_oom_kill has no hidden padding");

/* Longer paths are cut. Paths of Kubernetes are shorter than 300. */
#define ABI_TRACE_PATH_LENGTH 512

struct abi_trace_path {
  struct abi_trace_event event;
  char path[ABI_TRACE_PATH_LENGTH]; /* in its hierarchy, NUL-terminated */
};

ABI_ASSERT(sizeof(struct abi_trace_path) == 96 + ABI_TRACE_PATH_LENGTH,
           "abi_trace_path has no hidden padding");

/* X(name, loss): failures. `loss` as in ABI_EVENT_COUNTERS. */
#define ABI_TRACE_FAILURES(X)                                    \
  X(read, 1)      /* bpf_probe_read_kernel refused an address */ \
  X(open_full, 1) /* the map of open spans was full */           \
  X(sum_full, 1)  /* the map of sums by cgroup was full */       \
  X(unpaired, 0)  /* an end without a begin, after the tracer had begun */

enum abi_trace_failure {
#define ABI_TRACE_FAILURE_ENUM(name, loss) ABI_TRACE_FAILURE_##name,
  ABI_TRACE_FAILURES(ABI_TRACE_FAILURE_ENUM)
#undef ABI_TRACE_FAILURE_ENUM
      ABI_TRACE_FAILURE_COUNT
};

/* All spans of one kind, recorded or not. Pages count when the program sees them, the rest when the
 * span ends. */
struct abi_trace_total {
  __u64 count;
  __u64 ns;
  __u64 scanned;
  __u64 taken;
  __u64 reclaimed;
  __u64 reported; /* records put into the ring, without begins */
  __u64 dropped;  /* records that found the ring full, with begins */
  __u64 passed;   /* not recorded: too short, or of a cgroup that the filter excludes */
};

/* One per CPU in the kernel; userspace sums. */
struct abi_trace_totals {
  struct abi_trace_total kinds[ABI_TRACE_KIND_COUNT];
  __u64 failures[ABI_TRACE_FAILURE_COUNT];
};

/* Sums by cgroup and kind, of the spans that pass the filters. Bucket i counts lengths in
 * [2^(i-1), 2^i) microseconds; the first bucket those below 1, the last one all longer ones. */
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

/* Capacity of the filter, in cgroups. */
#define ABI_TRACE_WANTED 4096

#endif
