/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Watches: lines that userspace arms and the programs compare usage with, and the usage of the node
 * by the programs' own formula.
 */
#ifndef FORESTALL_BPF_ABI_WATCH_H
#define FORESTALL_BPF_ABI_WATCH_H

#include <linux/types.h>

#include "bpf/abi/assert.h"

/* Slot 0 is the node; the others are cgroups. */
#define ABI_WATCH_NODE 0
#define ABI_WATCH_SLOTS 512

/*
 * One slot of the memory-mapped array `watches`. The word is both the line and whether it is armed,
 * so that arming is one store and firing one compare-and-exchange, and neither can be seen half
 * done: 0 is "disarmed", any other value is the usage in bytes at which the watch fires, once.
 */
struct abi_watch {
  __u64 line;
};

/* What reclaim or a stall in a cgroup means: value of the hash `relations`, whose key is a cgroup
 * id (0: the node). Watched cgroups and their ancestors are in it; userspace adds the node. */
struct abi_relation {
  __u32 slot;
  __u32 watched; /* 0: only an ancestor of the watched cgroup in `slot` */
  /* The programs' own memory, for saying things once; starts as 0. */
  __u64 last_reclaim_ns;
  __u64 window_begin_ns;
  __u64 stalled_ns; /* in that window */
};

/* Node counters, all in bytes: sums of pglist_data.vm_stat (zone.vm_stat for `free`), which is what
 * /proc/vmstat shows as nr_file_pages, nr_anon_pages, nr_inactive_file and nr_free_pages. */
struct abi_node_usage {
  __u64 at_ns; /* CLOCK_MONOTONIC */
  __u64 file;
  __u64 anon;
  __u64 inactive_file;
  __u64 free;
};

/* The node's counter that slot 0 is compared with: kubelet's working set, floored at 0. */
static inline __u64 abi_node_working_set(const struct abi_node_usage* usage) {
  __u64 total = usage->file + usage->anon;

  return total < usage->inactive_file ? 0 : total - usage->inactive_file;
}

ABI_ASSERT(sizeof(struct abi_watch) == 8, "abi_watch is one word");
ABI_ASSERT(sizeof(struct abi_relation) == 32, "abi_relation has no hidden padding");
ABI_ASSERT(sizeof(struct abi_node_usage) == 40, "abi_node_usage has no hidden padding");

#endif
