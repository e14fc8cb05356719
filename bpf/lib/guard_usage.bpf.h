/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard's state of each slot, and the working set of a slot's cgroup.
 */
#ifndef FORESTALL_BPF_GUARD_USAGE_BPF_H
#define FORESTALL_BPF_GUARD_USAGE_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/lib/file_pages.bpf.h"
#include "bpf/lib/node.bpf.h"

/* Least time between two walks that add up inactive file pages. */
#define WALK_NS (2 * 1000 * 1000ULL)
/* Each walk is followed by so many times its length without one, for every subject that walks: all
 * of them take at most an eighth of a CPU. After a rise of usage it is once its length. */
#define WALK_REST 7

/* State of a slot that userspace does not read. */
struct guard_state {
  __u64 memcg;  /* address; 0: none */
  __u64 cgroup; /* id the address must still have when it is read */
  __u64 next_check_ns;
  __u64 next_walk_ns;
  __u64 walked_ns;   /* end of the last walk */
  __u64 inactive;    /* bytes, at the last walk */
  __u64 checked_for; /* generation of the list that next_check_ns was for */
  __u64 shooting;    /* generation of the list that is being carried out; 0: none */
  __u64 crossed_ns;
  __u64 crossed_boot_ns; /* the same by the clock of start_boottime */
  __u64 usage;
  __u64 line;
  __u64 firings;
  __u64 forgiven;     /* `firings` after a crossing that was over before a signal could be sent */
  __u64 forgiven_for; /* generation of the list */
  __u64 choosing;     /* generation of the list from which a CPU selects now; 0: none does */
  __u64 no_victim;    /* generation of the list that was reported to have no victim */
  __u32 group;
  __u32 claimed; /* victims, by bit: a CPU is processing it */
  __u32 settled; /* victims, by bit: finished */
  __u32 refused;
  __u32 reached; /* victims that were signalled */
  __u32 unread;  /* the last walk was incomplete */
  __u32 forgiven_times;
  __u32 unread_times;    /* in a row */
  __u32 current_claimed; /* as `claimed`, of a process that is not listed */
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, ABI_GUARD_SLOTS);
  __type(key, __u32);
  __type(value, struct guard_state);
} guard_states SEC(".maps");

/* Slots whose last check needed a walk, by bit. */
__u32 walking;

struct abi_guard_counts counts;

#define COUNT_GUARD(member) __sync_fetch_and_add(&counts.member, 1)

static __always_inline __u64 node_working_set(void) {
  struct abi_node_usage usage;

  read_node(&usage);
  return abi_node_working_set(&usage);
}

/* abi_node_taken(); 0: unknown. */
static __always_inline __u64 node_taken(void) {
  __u64 available = any_pgdat ? read_available(any_pgdat) : ABI_NOT_AVAILABLE;

  return available == ABI_NOT_AVAILABLE ? 0 : abi_node_taken(available);
}

/* Bytes of inactive or active file pages; -1: the subtree is too large or changed during the walk.
 */
__noinline __s64 file_below(__u64 memcg, __u32 active) {
  __u32 whole = 0;
  __u64 bytes = subtree_file((void*)memcg, active, &whole);

  return whole ? (__s64)bytes : -1;
}

/* Without a loop, which the verifier would follow step by step. */
static __always_inline __u32 bits_in(__u32 word) {
  word -= word >> 1 & 0x55555555;
  word = (word & 0x33333333) + (word >> 2 & 0x33333333);
  return ((word + (word >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* Bytes of inactive file pages, added up now. Sets when the slot's next walk may begin. */
static __always_inline __u64 walk_now(__u32 index, struct guard_state* state,
                                      __u64 inactive_known) {
  __u64 began = bpf_ktime_get_ns(), took;
  __s64 inactive = file_below(state->memcg, 0);
  __u32 walkers = __sync_fetch_and_or(&walking, 1U << (index & 31)) | 1U << (index & 31);
  __u64 rest;

  took = bpf_ktime_get_ns() - began;
  COUNT_GUARD(walks);
  __sync_fetch_and_add(&counts.walk_ns, took);
  rest = took * WALK_REST * bits_in(walkers);
  state->walked_ns = began + took;
  state->next_walk_ns = began + took + (rest > WALK_NS ? rest : WALK_NS);
  state->unread = inactive < 0;
  if (inactive < 0) {
    COUNT_GUARD(unread);
    inactive = (__s64)inactive_known;
  }
  state->inactive = inactive;
  return inactive;
}

/* Working set of a cgroup; its usage while that alone is below the line. Between two walks the
 * inactive pages of the last one count. If usage has risen so far that this reaches the line, the
 * next walk comes early and decides; until then the result is just below the line. */
static __always_inline __u64 cgroup_working_set(__u32 index, struct guard_state* state, __u64 now,
                                                __u64 line, __u64 inactive_known) {
  struct mem_cgroup* memcg = (void*)state->memcg;
  __u64 usage, inactive, due;
  int risen;

  if (!memcg) return 0;
  if (memcg_id(memcg) != state->cgroup) {
    state->memcg = 0;
    return 0;
  }
  usage = memcg_usage(memcg);
  if (usage < line) {
    __sync_fetch_and_and(&walking, ~(1U << (index & 31)));
    return usage;
  }
  inactive = state->inactive;
  risen = usage >= line + inactive;
  due = state->next_walk_ns;
  if (risen) due = state->walked_ns + (due - state->walked_ns) / WALK_REST;
  if (now >= due) {
    inactive = walk_now(index, state, inactive_known);
    /* Read again, because memory may have been freed during the walk. */
    usage = memcg_usage(memcg);
  } else if (risen) {
    return line - 1;
  }
  return usage > inactive ? usage - inactive : 0;
}

#endif
