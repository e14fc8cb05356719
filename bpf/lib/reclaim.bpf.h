/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cgroup whose limit makes a task reclaim. */
#ifndef FORESTALL_BPF_RECLAIM_BPF_H
#define FORESTALL_BPF_RECLAIM_BPF_H

#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/memcg.bpf.h"

struct limit_climb {
  struct mem_cgroup* at;
  __u32 found;
};

static long climb_to_limit(__u32 i, struct limit_climb* climb) {
  struct mem_cgroup* at = climb->at;

  if (!at) return 1;
  /* The kernel charges in batches of 64 pages. */
  if (BPF_CORE_READ(at, memory.usage.counter) + 64 >= (long)BPF_CORE_READ(at, memory.max)) {
    climb->found = 1;
    return 1;
  }
  climb->at = memcg_parent(at);
  return 0;
}

/* For mm_vmscan_memcg_reclaim_begin. Before 7.2 the tracepoint does not pass the cgroup. This then
 * returns the lowest ancestor of the current task's cgroup `own` that is at its limit, and `own` if
 * none is. That is wrong for a writer of memory.max or memory.reclaim and for memory.high's worker,
 * which may reclaim elsewhere. */
static __always_inline struct mem_cgroup* reclaimed_memcg(struct bpf_raw_tracepoint_args* ctx,
                                                          struct mem_cgroup* own) {
  struct limit_climb climb = {.at = own};

  if (reclaim_passes_memcg) {
    /* A number (raw_tp), possibly NULL; only probe reads follow it. */
    struct mem_cgroup* passed = (void*)ctx->args[2];

    return passed ? passed : own;
  }
  bpf_loop(TREE_LEVELS, climb_to_limit, &climb, 0);
  return climb.found ? climb.at : own;
}

#endif
