/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Time that tasks stall for memory, per cgroup and for the node. A stall counts for the task's own
 * cgroup and for each ancestor, as in PSI, so a pod's sum covers its containers.
 *
 * The sum differs from PSI's total. PSI counts a period once, however many tasks stall in it, and
 * weighs each CPU by how busy it was (kernel/sched/psi.c collect_percpu_times). The two agree for
 * one task on one CPU; the tests compare them there.
 */
#ifndef FORESTALL_BPF_ABI_STALL_H
#define FORESTALL_BPF_ABI_STALL_H

#include <linux/types.h>

#include "bpf/abi/assert.h"

enum abi_stall_kind {
  ABI_STALL_MEMCG_RECLAIM,  /* in try_to_free_mem_cgroup_pages */
  ABI_STALL_DIRECT_RECLAIM, /* in try_to_free_pages */
  ABI_STALL_PSI,            /* between psi_memstall_enter and _leave (full tier) */
  ABI_STALL_KSWAPD,         /* kswapd runs: node only, no task waits for it */
  ABI_STALL_KINDS
};

struct abi_stall_sum {
  __u64 ns;    /* summed over tasks: two tasks that stall for 1 ms each add 2 ms */
  __u64 count; /* stalls that began */
  __u64 pages; /* reclaimed; only of the two reclaim kinds */
};

struct abi_stall {
  struct abi_stall_sum sums[ABI_STALL_KINDS];
};

/* Levels of the cgroup tree, from the leaf up, that a stall counts for. Kubernetes needs four. In a
 * deeper tree, of the levels above only the watched ones count, and ABI_FAILURE_depth counts it. */
#define ABI_STALL_LEVELS 7
/* At most this many of those. */
#define ABI_STALL_WATCHED 4

/* A stall that has begun: key and value of the hash `open_stalls`. Kept per thread, so that the end
 * of one thread's stall never closes another thread's. */
struct abi_open_key {
  __u32 tid;
  __u32 kind; /* enum abi_stall_kind */
};

struct abi_open_stall {
  __u64 begin_ns;
  /* Ids, leaf first; 0 ends the list; the root is left out. */
  __u64 cgroups[ABI_STALL_LEVELS + ABI_STALL_WATCHED];
};

ABI_ASSERT(sizeof(struct abi_stall_sum) == 24, "abi_stall_sum has no hidden padding");
ABI_ASSERT(sizeof(struct abi_stall) == 96, "abi_stall has no hidden padding");
ABI_ASSERT(sizeof(struct abi_open_key) == 8, "abi_open_key has no hidden padding");
ABI_ASSERT(sizeof(struct abi_open_stall) == 96, "abi_open_stall has no hidden padding");

#endif
