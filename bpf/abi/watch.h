/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Watches: lines that userspace arms and the programs compare with usage; and the usage of the node
 * as the programs compute it.
 */
#ifndef FORESTALL_BPF_ABI_WATCH_H
#define FORESTALL_BPF_ABI_WATCH_H

#include <linux/types.h>

#include "bpf/abi/assert.h"

/* Slot 0 is the node's working set, slot 1 its memory outside of MemAvailable; the others are
 * cgroups. */
#define ABI_WATCH_NODE 0
#define ABI_WATCH_TAKEN 1
#define ABI_WATCH_CGROUPS 2
#define ABI_WATCH_SLOTS 513

/* In place of a cgroup's id (0: the node): slot 1. */
#define ABI_TAKEN_ID (~0ULL)

/*
 * One slot of the memory-mapped array `watches`. One word holds both the line and whether it is
 * armed, so arming is one store and firing one compare-and-exchange. 0 means disarmed; any other
 * value is the usage in bytes at which the watch fires, once.
 */
struct abi_watch {
  __u64 line;
};

/* One reading of a subject's usage by the timer; begin_ns 0: none. */
struct abi_reading {
  __u64 begin_ns; /* CLOCK_MONOTONIC; the reading lies between the two */
  __u64 end_ns;
  __u64 usage; /* bytes */
};

/*
 * One slot of the memory-mapped array `readings`, which the timer alone writes. A copy is valid if
 * `sequence` was even and the same before and after it.
 */
struct abi_readings {
  __u64 sequence;
  __u64 cgroup;               /* id of the subject that was read; 0, ABI_TAKEN_ID: the node */
  struct abi_reading below;   /* the last one below the line that was armed then */
  struct abi_reading reached; /* the last one at or above it */
};

/* Value of the hash `relations`, which maps a cgroup id (0: the node) to the watch that reclaim or
 * a stall in it concerns. It holds the watched cgroups and their ancestors; userspace adds the
 * node. */
struct abi_relation {
  __u32 slot;
  __u32 watched; /* 0: only an ancestor of the watched cgroup in `slot` */
  /* Written by the programs to limit the rate of events; starts as 0. */
  __u64 last_reclaim_ns;
  __u64 window_begin_ns;
  __u64 stalled_ns; /* in that window */
};

/* Node counters in bytes: sums of pglist_data.vm_stat (zone.vm_stat for `free`). /proc/vmstat shows
 * them as nr_file_pages, nr_anon_pages, nr_inactive_file and nr_free_pages. */
struct abi_node_usage {
  __u64 at_ns; /* CLOCK_MONOTONIC */
  __u64 file;
  __u64 anon;
  __u64 inactive_file;
  __u64 free;
  /* As MemAvailable of /proc/meminfo, from these counters and the zones' watermarks (mm/show_mem.c
   * si_mem_available()); ABI_NOT_AVAILABLE if this kernel does not show all of them. */
  __u64 available;
};

#define ABI_NOT_AVAILABLE (~0ULL)

/* The amount that slot 1 is compared with grows as `available` falls. */
#define ABI_TAKEN_ORIGIN (1ULL << 62)

static inline __u64 abi_node_taken(__u64 available) {
  return ABI_TAKEN_ORIGIN - available;
}

/* The node's counter that slot 0 is compared with: kubelet's working set, floored at 0. */
static inline __u64 abi_node_working_set(const struct abi_node_usage* usage) {
  __u64 total = usage->file + usage->anon;

  return total < usage->inactive_file ? 0 : total - usage->inactive_file;
}

ABI_ASSERT(sizeof(struct abi_watch) == 8, "abi_watch is one word");
ABI_ASSERT(sizeof(struct abi_readings) == 64, "abi_readings has no hidden padding");
ABI_ASSERT(sizeof(struct abi_relation) == 32, "abi_relation has no hidden padding");
ABI_ASSERT(sizeof(struct abi_node_usage) == 48, "abi_node_usage has no hidden padding");

#endif
