/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ranks the workloads of the standing list when its line is reached. The order is that of
 * userspace/policy/rank.h: above the request, priority, growth if the ranking has it, amount above
 * the request.
 *
 * What userspace cannot check while it is stopped bounds what may be killed:
 *  - Only a workload above its request is selected.
 *  - Listed workloads must have grown by at least half of what the subject grew by since the list
 *    was made. Otherwise the memory went to something that is not listed, and nothing is killed.
 */
#ifndef FORESTALL_BPF_STANDING_BPF_H
#define FORESTALL_BPF_STANDING_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/lib/guard_usage.bpf.h"
#include "bpf/lib/memcg.bpf.h"

/* policy/rank.h kGrowthNoiseMin, and the part of the largest growth below which growth is noise. */
#define GROWTH_NOISE_MIN (1024 * 1024ULL)
#define GROWTH_NOISE_PART 64
/* Times that the first workload's page cache is added up; then nothing is killed. */
#define STANDING_TRIES 4

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 2 * ABI_STANDING_WORKLOADS);
  __type(key, __u32);
  __type(value, struct abi_standing_workload);
} standing_workloads SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 2 * ABI_STANDING_PROCESSES);
  __type(key, __u32);
  __type(value, struct abi_guard_victim);
} standing_processes SEC(".maps");

/* The slot with the regular lists of the same subject, and its `firings` when userspace last read
 * them; ABI_GUARD_STANDING: it has none. Set by userspace. */
__u32 beside_slot = ABI_GUARD_STANDING;
__u64 beside_firings;
/* CLOCK_MONOTONIC; the standing list does not fire before. Set by userspace, which decides itself
 * until then. */
__u64 standing_not_before;

/* Working sets now, in bytes; 0: gone. Written by the program that owns the crossing. */
__u64 standing_used[ABI_STANDING_WORKLOADS];

static __always_inline struct abi_standing_workload* standing_workload(__u32 bank, __u32 i) {
  __u32 key = (bank & 1) * ABI_STANDING_WORKLOADS + i;

  return i < ABI_STANDING_WORKLOADS ? bpf_map_lookup_elem(&standing_workloads, &key) : 0;
}

/* The mask proves to the verifier that the index is in range. */
static __always_inline __u64* standing_used_of(__u32 i) {
  i &= ABI_STANDING_WORKLOADS - 1;
  barrier_var(i);
  return &standing_used[i];
}

struct standing_walk {
  __u32 bank;
  __u32 by_growth;
  __u64 grown;   /* by all of them */
  __u64 largest; /* growth of one */
  __u64 growth;  /* these four: of the first one in order */
  __u64 over;
  __s32 priority;
  __s32 first; /* negative: none is above its request */
};

static __always_inline __u64 above(__u64 value, __u64 base) {
  return value > base ? value - base : 0;
}

/* Reads one workload. Its inactive pages are those of the list until read_exactly(). */
static long read_standing(__u32 i, struct standing_walk* walk) {
  struct abi_standing_workload* workload = standing_workload(walk->bank, i);
  __u64 used = 0;

  if (!workload) return 1;
  if (memcg_id((void*)workload->memcg) == workload->cgroup)
    used = above(memcg_usage((void*)workload->memcg), workload->inactive_file);
  *standing_used_of(i) = used;
  return 0;
}

static long rank_standing(__u32 i, struct standing_walk* walk) {
  struct abi_standing_workload* workload = standing_workload(walk->bank, i);
  __u64 noise = walk->largest / GROWTH_NOISE_PART;
  __u64 used, growth = 0, over;

  if (!workload) return 1;
  used = *standing_used_of(i);
  if (used <= workload->request) return 0;
  over = used - workload->request;
  if (walk->by_growth) growth = above(used, workload->working_set);
  if (growth < (noise > GROWTH_NOISE_MIN ? noise : GROWTH_NOISE_MIN)) growth = 0;
  if (walk->first >= 0) {
    if (workload->priority > walk->priority) return 0;
    if (workload->priority == walk->priority &&
        (growth < walk->growth || (growth == walk->growth && over <= walk->over)))
      return 0;
  }
  walk->first = i;
  walk->priority = workload->priority;
  walk->growth = growth;
  walk->over = over;
  return 0;
}

static long add_growth(__u32 i, struct standing_walk* walk) {
  struct abi_standing_workload* workload = standing_workload(walk->bank, i);
  __u64 grown;

  if (!workload) return 1;
  grown = above(*standing_used_of(i), workload->working_set);
  walk->grown += grown;
  if (grown > walk->largest) walk->largest = grown;
  return 0;
}

/* Adds up the workload's page cache. Returns whether that changed its working set. */
static __always_inline int read_exactly(__u32 bank, __u32 i) {
  struct abi_standing_workload* workload = standing_workload(bank, i);
  __u64 used;
  __s64 inactive;

  if (!workload || memcg_id((void*)workload->memcg) != workload->cgroup) return 0;
  inactive = inactive_below(workload->memcg);
  if (inactive < 0) {
    COUNT_GUARD(unread);
    return 0;
  }
  used = above(memcg_usage((void*)workload->memcg), inactive);
  if (*standing_used_of(i) == used) return 0;
  *standing_used_of(i) = used;
  return 1;
}

/* The index of the workload to kill; negative: none is above its request, memory went to something
 * that is not listed, or the first one may not be killed. `subject_growth` in bytes, since the list
 * was made. The caller owns the crossing. */
__noinline int choose_standing(__u32 bank, __u32 count, __u32 by_growth, __u64 subject_growth) {
  struct standing_walk walk = {.bank = bank, .by_growth = by_growth};
  struct abi_standing_workload* workload;
  int exact = -1;

  if (count > ABI_STANDING_WORKLOADS) return -1;
  bpf_loop(count, read_standing, &walk, 0);
  for (int i = 0; i < STANDING_TRIES; i++) {
    walk.grown = walk.largest = 0;
    walk.first = -1;
    bpf_loop(count, add_growth, &walk, 0);
    if (walk.grown < subject_growth / 2) return -1;
    bpf_loop(count, rank_standing, &walk, 0);
    if (walk.first < 0) return -1;
    if (walk.first == exact || !read_exactly(bank, walk.first)) {
      workload = standing_workload(bank, walk.first);
      return workload && workload->count ? walk.first : -1;
    }
    exact = walk.first;
  }
  return -1;
}

/* Copies process `i` of a workload; 0: there is none. */
static __always_inline int take_standing(__u32 bank, __u32 group, __u32 i,
                                         struct abi_guard_victim* victim) {
  struct abi_standing_workload* workload = standing_workload(bank, group);
  struct abi_guard_victim* process;
  __u32 key;

  if (!workload || i >= workload->count) return 0;
  key = (bank & 1) * ABI_STANDING_PROCESSES + workload->first + i;
  process = bpf_map_lookup_elem(&standing_processes, &key);
  if (!process) return 0;
  *victim = *process;
  return 1;
}

#endif
