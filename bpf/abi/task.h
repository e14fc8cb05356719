/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One process, as the iterator program `scan` writes it. The stream is an array of these records;
 * userspace reads it into a buffer and uses the records in place.
 */
#ifndef FORESTALL_BPF_ABI_TASK_H
#define FORESTALL_BPF_ABI_TASK_H

#include <linux/types.h>

#include "bpf/abi/assert.h"

#define ABI_TASK_COMM_LENGTH 16

/* What oom_evaluate_task() and oom_badness() (mm/oom_kill.c) read of a process. */
enum abi_task_flag {
  ABI_TASK_INIT = 1 << 0,          /* is_global_init */
  ABI_TASK_KERNEL_THREAD = 1 << 1, /* PF_KTHREAD */
  ABI_TASK_NO_MEMORY = 1 << 2,     /* find_lock_task_mm finds no thread with an mm */
  ABI_TASK_REAPED = 1 << 3,        /* MMF_OOM_SKIP of its mm */
  ABI_TASK_IN_VFORK = 1 << 4,      /* in_vfork() */
  ABI_TASK_OOM_ORIGIN = 1 << 5,    /* signal->oom_flag_origin */
  ABI_TASK_OOM_VICTIM = 1 << 6,    /* signal->oom_mm is set */
  ABI_TASK_VICTIM_REAPED = 1 << 7, /* MMF_OOM_SKIP of signal->oom_mm */
  ABI_TASK_DYING = 1 << 8,         /* task_will_free_mem, ignoring other users of the mm */
  /* The leader has no mm any more, so the OOM killer uses the first thread that has one: `pid`, the
   * memory and IN_VFORK describe that thread, and mark_victim names it. The two flags are set
   * together; each process has one record. */
  ABI_TASK_THREAD = 1 << 9,
  ABI_TASK_STANDS_IN = 1 << 10,
  ABI_TASK_NO_SUM = 1 << 11, /* `summed` was not requested or is unknown: zeroes */
  ABI_TASK_ATOMIC =
      1 << 12, /* rss_stat is an array of atomics (before 6.2): `summed` is `counted` */
};

/* mm->rss_stat, in pages; the order is the kernel's (MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS,
 * MM_SHMEMPAGES). */
enum abi_task_counter {
  ABI_TASK_FILE,
  ABI_TASK_ANON,
  ABI_TASK_SWAP,
  ABI_TASK_SHMEM,
  ABI_TASK_COUNTERS
};

#define ABI_TASK_UNKILLABLE (-0x7fffffffffffffffLL - 1)
#define ABI_TASK_ADJ_NEVER (-1000) /* OOM_SCORE_ADJ_MIN */

/* Result of a walk in the kernel's own order. */
enum abi_walk_state {
  ABI_WALK_EMPTY,   /* the cgroup has no process */
  ABI_WALK_RUNNING, /* the walk reached its bound on steps */
  ABI_WALK_DONE,
  ABI_WALK_TORN, /* the lists changed during the walk */
  ABI_WALK_FULL, /* more than ABI_WALK_MAX processes */
};
#define ABI_WALK_MAX 32768

/* Bound on the CPUs that are summed over; more than Linux supports on x86. */
#define ABI_TASK_CPUS 8192

struct abi_task {
  __u64 start_ns;  /* start_boottime of the thread group leader */
  __u64 cgroup;    /* kernfs id of the leader's memory cgroup; 0: none */
  __u64 memory_id; /* equal for processes that share one mm; opaque */
  /* Both ways of counting; calibration finds the one that the kernel uses. `counted` is the value
   * of percpu_counter_read_positive(), `summed` that of percpu_counter_sum_positive(). They are
   * equal where rss_stat is not a percpu_counter. */
  __s64 counted[ABI_TASK_COUNTERS];
  __s64 summed[ABI_TASK_COUNTERS];
  __u64 page_table_bytes;
  __s64 points; /* oom_badness() for the requested total_pages; ABI_TASK_UNKILLABLE: LONG_MIN */
  __u64 nodes_allowed; /* first 64 bits of mems_allowed, of all threads together */
  __u64 nodes_bound;   /* of their MPOL_BIND policies; all ones: a thread has no such policy */
  __s32 pid;           /* thread that the memory belongs to */
  __s32 tgid;          /* process */
  __u32 uid;           /* real uid in the initial user namespace */
  __s32 oom_score_adj;
  __u32 flags; /* enum abi_task_flag */
  __u32 pad;
  char comm[ABI_TASK_COMM_LENGTH];
};

ABI_ASSERT(sizeof(struct abi_task) == 160, "abi_task is 160 bytes without hidden padding");

#endif
