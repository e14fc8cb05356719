/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cgroup whose limit makes a task reclaim. */
#ifndef FORESTALL_BPF_RECLAIM_BPF_H
#define FORESTALL_BPF_RECLAIM_BPF_H

#include "bpf/abi/stall.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/memcg.bpf.h"

/* For mm_vmscan_memcg_reclaim_begin. Before 7.2 the tracepoint does not pass the cgroup. This then
 * returns the lowest ancestor of the current task's cgroup `own` that is at its limit, and `own` if
 * none is. That is wrong for a writer of memory.max or memory.reclaim and for memory.high's worker,
 * which may reclaim elsewhere. */
static __always_inline struct mem_cgroup* reclaimed_memcg(struct bpf_raw_tracepoint_args* ctx,
                                                          struct mem_cgroup* own) {
  struct mem_cgroup* memcg = own;

  if (reclaim_passes_memcg) {
    /* A number (raw_tp), possibly NULL; only probe reads follow it. */
    struct mem_cgroup* passed = (void*)ctx->args[2];

    return passed ? passed : own;
  }
  for (int i = 0; i < ABI_STALL_LEVELS && memcg; i++) {
    /* The kernel charges in batches of 64 pages. */
    if (BPF_CORE_READ(memcg, memory.usage.counter) + 64 >= (long)BPF_CORE_READ(memcg, memory.max))
      return memcg;
    memcg = memcg_parent(memcg);
  }
  return own;
}

#endif
