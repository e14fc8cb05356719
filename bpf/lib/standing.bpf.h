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
 *    Growth is counted without page cache, which the kernel takes back before its OOM killer acts.
 *  - All is read at the crossing. If the page cache of a workload cannot be read that may be above
 *    its request, nothing is killed.
 */
#ifndef FORESTALL_BPF_STANDING_BPF_H
#define FORESTALL_BPF_STANDING_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/lib/guard_usage.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/unknown.bpf.h"

/* policy/rank.h kGrowthNoiseMin, and the part of the largest growth below which growth is noise. */
#define GROWTH_NOISE_MIN (1024 * 1024ULL)
#define GROWTH_NOISE_PART 64

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

/* CLOCK_MONOTONIC; the standing list does not fire before either of them. The first is set by the
 * watchdog and after a kill by a regular list, for the time in which the kill frees memory; the
 * second by the loop, which decides itself until then. */
__u64 standing_not_before;
__u64 loop_decides_until;
/* While that kill frees memory. */
#define AFTER_REGULAR_NS (10 * 1000 * 1000 * 1000ULL)

static __always_inline __u64 standing_postponed(void) {
  __u64 kills = *(volatile __u64*)&standing_not_before;
  __u64 decides = *(volatile __u64*)&loop_decides_until;

  return kills > decides ? kills : decides;
}

/* Another CPU, or userspace, may postpone it at the same time; the later time counts. */
static __always_inline void postpone_standing(__u64 until) {
  __u64 seen = *(volatile __u64*)&standing_not_before;

  for (int tries = 0; tries < 4 && seen < until; tries++) {
    __u64 before = __sync_val_compare_and_swap(&standing_not_before, seen, until);

    if (before == seen) return;
    seen = before;
  }
}

/* Of each workload in bytes, written by the program that owns the crossing: its working set (0:
 * gone), and what it grew by without page cache. */
__u64 standing_used[ABI_STANDING_WORKLOADS];
__u64 standing_grown[ABI_STANDING_WORKLOADS];

static __always_inline struct abi_standing_workload* standing_workload(__u32 bank, __u32 i) {
  __u32 key = (bank & 1) * ABI_STANDING_WORKLOADS + i;

  return i < ABI_STANDING_WORKLOADS ? bpf_map_lookup_elem(&standing_workloads, &key) : 0;
}

/* Proves to the verifier that the index is in range. */
static __always_inline __u32 standing_index(__u32 i) {
  i &= ABI_STANDING_WORKLOADS - 1;
  barrier_var(i);
  return i;
}

static __always_inline __u64 above(__u64 value, __u64 base) {
  return value > base ? value - base : 0;
}

struct standing_walk {
  __u32 bank;
  __u32 by_growth;
  __u64 grown;   /* by all of them */
  __u64 largest; /* growth of one */
  __u64 growth;  /* these four: of the first one in order */
  __u64 over;
  __s32 priority;
  __s32 first;  /* negative: none is above its request */
  __u64 until;  /* bpf_ktime_get_ns(): the end of the time for reading */
  __u32 unread; /* not all could be read */
};

/* Reads one workload. The reading ends if its page cache cannot be read, and it may be above its
 * request. */
static long read_standing(__u32 i, struct standing_walk* walk) {
  struct abi_standing_workload* workload = standing_workload(walk->bank, i);
  __u32 at = standing_index(i);
  __u64 memcg, usage;
  __s64 inactive, active;

  if (!workload) return 1;
  standing_used[at] = standing_grown[at] = 0;
  memcg = workload->memcg;
  if (memcg_id((void*)memcg) != workload->cgroup) return 0;
  inactive = file_below(memcg, 0);
  active = file_below(memcg, 1);
  usage = memcg_usage((void*)memcg);
  /* A cgroup was made or removed below, or there are too many. */
  if (inactive < 0 || active < 0) {
    COUNT_GUARD(unread);
    walk->unread |= usage > workload->request;
  } else {
    standing_used[at] = above(usage, inactive);
    standing_grown[at] = above(above(usage, inactive + active), workload->held);
  }
  walk->unread |= bpf_ktime_get_ns() > walk->until;
  return walk->unread ? 1 : 0;
}

static long add_growth(__u32 i, struct standing_walk* walk) {
  struct abi_standing_workload* workload = standing_workload(walk->bank, i);
  __u64 grown = standing_grown[standing_index(i)];

  if (!workload) return 1;
  if (!(workload->flags & ABI_STANDING_NESTED)) walk->grown += grown;
  if (grown > walk->largest) walk->largest = grown;
  return 0;
}

static long rank_standing(__u32 i, struct standing_walk* walk) {
  struct abi_standing_workload* workload = standing_workload(walk->bank, i);
  __u64 noise = walk->largest / GROWTH_NOISE_PART;
  __u64 used, growth = 0, over;

  if (!workload) return 1;
  used = standing_used[standing_index(i)];
  if (used <= workload->request) return 0;
  over = used - workload->request;
  if (walk->by_growth) growth = standing_grown[standing_index(i)];
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

#define STANDING_NONE (-1)
#define STANDING_UNREAD (-4)
/* Longest time for the reading of all workloads: it runs in an interrupt. */
#define STANDING_READ_NS (20 * 1000 * 1000ULL)

/* The index of the workload to kill. STANDING_NONE: none is above its request, memory went to
 * something that is not listed, or the first one may not be killed. STANDING_UNREAD: not all could
 * be read. `subject_growth` in bytes, since the list was made. One CPU at a time. */
__noinline int choose_standing(__u32 bank, __u32 count, __u32 by_growth, __u64 subject_growth) {
  struct standing_walk walk = {
      .bank = bank, .by_growth = by_growth, .first = -1, .unread = unknown_zero()};
  struct abi_standing_workload* workload;

  if (count > ABI_STANDING_WORKLOADS) return STANDING_NONE;
  walk.until = bpf_ktime_get_ns() + STANDING_READ_NS;
  bpf_loop(count, read_standing, &walk, 0);
  if (walk.unread) return STANDING_UNREAD;
  bpf_loop(count, add_growth, &walk, 0);
  if (walk.grown < subject_growth / 2) return STANDING_NONE;
  bpf_loop(count, rank_standing, &walk, 0);
  if (walk.first < 0) return STANDING_NONE;
  workload = standing_workload(bank, walk.first);
  return workload && workload->count ? walk.first : STANDING_NONE;
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

struct listed_search {
  __u32 bank;
  __u32 group;
  __s32 tgid;
  __u32 found;
};

static long find_listed(__u32 i, struct listed_search* search) {
  struct abi_guard_victim listed;

  if (!take_standing(search->bank, search->group, i, &listed)) return 1;
  search->found |= listed.tgid == search->tgid;
  return search->found ? 1 : 0;
}

/* Whether the workload's list has this process. */
static __always_inline int is_listed(__u32 bank, __u32 group, __s32 tgid) {
  struct listed_search search = {
      .bank = bank, .group = group, .tgid = tgid, .found = unknown_zero()};

  bpf_loop(ABI_GUARD_VICTIMS, find_listed, &search, 0);
  return search.found;
}

/* As userspace/actuators/newer_processes.h: what starts later was started again after the kill. */
#define YOUNGER_NS (1000 * 1000 * 1000ULL)

/* The running process as a victim, if every process of the workload may be killed, and this one is
 * not listed and has started before `until` (start_boottime); else 0. */
static __always_inline int take_current(__u32 bank, __u32 group, __u64 until,
                                        struct abi_guard_victim* victim) {
  struct abi_standing_workload* workload = standing_workload(bank, group);
  struct task_struct* current = (void*)bpf_get_current_task();
  __s32 tgid = bpf_get_current_pid_tgid() >> 32;

  if (!workload || !(workload->flags & ABI_STANDING_WHOLE) || is_listed(bank, group, tgid))
    return 0;
  victim->tgid = tgid;
  victim->start_ns = BPF_CORE_READ(current, group_leader, start_boottime);
  victim->cgroup = workload->cgroup;
  victim->expected = 0;
  victim->group = group;
  return victim->start_ns < until;
}

#endif
