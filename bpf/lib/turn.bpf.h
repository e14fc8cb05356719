/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether this guard may fire (bpf/abi/guard.h, the turn).
 */
#ifndef FORESTALL_BPF_TURN_BPF_H
#define FORESTALL_BPF_TURN_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_helpers.h>

/* Shared with the guard before and the next one. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct abi_guard_turn);
} guard_turn SEC(".maps");

/* Of this guard: greater than that of each guard before it. Set before loading. */
const volatile __u32 guard_number = 1;

/* CLOCK_MONOTONIC; no list of this guard fires before: guards that it cannot end may be in force.
 * Set by userspace. */
__u64 held_until;

enum turn {
  TURN_OURS,
  TURN_TO_COME, /* the guard before this one has it */
  TURN_PAST,    /* the next guard has it, or it cannot be read */
};

static __always_inline int whose_turn(void) {
  __u32 key = 0, holder;
  struct abi_guard_turn* turn = bpf_map_lookup_elem(&guard_turn, &key);

  if (!turn) return TURN_PAST;
  holder = *(volatile __u64*)&turn->holder >> 32;
  if (holder == guard_number) return TURN_OURS;
  return holder < guard_number ? TURN_TO_COME : TURN_PAST;
}

/* Whether the process is an agent of this turn. The next one may have started in a workload that is
 * listed as a whole. */
static __always_inline int is_agent(__s32 tgid) {
  __u32 key = 0;
  struct abi_guard_turn* turn = bpf_map_lookup_elem(&guard_turn, &key);

  return turn && (*(volatile __u32*)&turn->last_agent == (__u32)tgid ||
                  *(volatile __u32*)&turn->agent == (__u32)tgid);
}

/* The kill of this slot is over. */
static __always_inline void end_kill(__u32 index) {
  __u32 key = 0;
  struct abi_guard_turn* turn = bpf_map_lookup_elem(&guard_turn, &key);

  if (turn) __sync_fetch_and_and(&turn->busy[guard_number & 1], ~(1ULL << (index & 63)));
}

/* Counts a crossing and begins its kill, until end_kill(). False: it is not this guard's turn. The
 * next agent takes the turn only if no crossing was counted since it read the reports, and no kill
 * was under way. */
static __always_inline int begin_kill(__u32 index) {
  __u32 key = 0;
  struct abi_guard_turn* turn = bpf_map_lookup_elem(&guard_turn, &key);

  if (!turn) return 0;
  __sync_fetch_and_or(&turn->busy[guard_number & 1], 1ULL << (index & 63));
  /* Fully ordered, because the old value is used. */
  if (__sync_fetch_and_add(&turn->holder, 1) >> 32 == guard_number) {
    turn->crossed_ns = bpf_ktime_get_ns();
    return 1;
  }
  end_kill(index);
  return 0;
}

#endif
