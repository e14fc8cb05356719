/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kill of one list of the guard: from the crossing to the last signal, with its reports. Which
 * list fires is decided by guard.bpf.c.
 */
#ifndef FORESTALL_BPF_GUARD_KILL_BPF_H
#define FORESTALL_BPF_GUARD_KILL_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/guard_usage.bpf.h"
#include "bpf/lib/signal.bpf.h"
#include "bpf/lib/standing.bpf.h"
#include "bpf/lib/turn.bpf.h"
#include "bpf/lib/unknown.bpf.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ABI_GUARD_SLOTS);
  __type(key, __u32);
  __type(value, struct abi_guard_slot);
} guard_slots SEC(".maps");

/* Slots with pending signals, by bit. */
__u32 pending;

static __always_inline __u64 in_force(struct abi_guard_slot* slot) {
  return *(volatile __u64*)&slot->published;
}

/* The same, with a full barrier before and after it: no read of a list moves across. BPF's atomics
 * are fully ordered if they return the old value. An acquire alone would not order the reads that
 * precede it, and the kernels before 6.15 have no acquire for BPF. Adding 0 changes nothing. */
static __always_inline __u64 in_force_ordered(struct abi_guard_slot* slot) {
  return __sync_fetch_and_add(&slot->published, 0);
}

/* ---- reports -------------------------------------------------------------------------------- */

/* One crossing, as one program handles it. */
struct volley {
  __u64 generation;
  __u32 hook;
  __u32 slot;
  __s32 code; /* of the last send */
  __u64 workload_usage;
};

static __always_inline void report(struct guard_state* state, const struct volley* volley,
                                   __u32 kind, __u32 way, const struct abi_guard_victim* victim) {
  struct abi_guard_report* report = bpf_ringbuf_reserve(&ring, sizeof(*report), 0);

  if (!report) {
    COUNT_GUARD(dropped);
    return;
  }
  __builtin_memset(report, 0, sizeof(*report));
  report->at_ns = bpf_ktime_get_ns();
  report->crossed_ns = state->crossed_ns;
  report->cgroup = state->cgroup;
  report->generation = volley->generation;
  report->usage = state->usage;
  report->line = state->line;
  report->firings = state->firings;
  if (victim) report->victim = *victim;
  report->workload_usage = volley->workload_usage;
  report->kind = kind;
  report->way = way;
  report->hook = volley->hook;
  report->slot = volley->slot;
  report->code = volley->code;
  report->refused = state->refused;
  report->tgid = bpf_get_current_pid_tgid() >> 32;
  bpf_get_current_comm(report->comm, sizeof(report->comm));
  bpf_ringbuf_submit(report, BPF_RB_FORCE_WAKEUP);
}

/* ---- kills ---------------------------------------------------------------------------------- */

/* Copies victim `i` of the list, or of the standing list's `group`; 0: there is none. *replaced:
 * the list is no longer in force. */
static __always_inline int take_victim(struct abi_guard_slot* slot, __u32 index, __u32 group,
                                       __u64 generation, __u32 i, struct abi_guard_victim* victim,
                                       int* replaced) {
  struct abi_guard_list* list = &slot->banks[generation & 1];

  *replaced = 0;
  if (i >= ABI_GUARD_VICTIMS) return 0;
  if (index == ABI_GUARD_STANDING) {
    if (!take_standing(generation & 1, group, i, victim)) return 0;
  } else {
    if (i >= list->victim_count) return 0;
    *victim = list->victims[i];
  }
  *replaced = in_force_ordered(slot) != generation;
  return !*replaced;
}

enum aimed {
  AIMED_SETTLED = 0, /* the victim is finished */
  AIMED_LEFT = 1,    /* to be retried */
  AIMED_BEYOND,      /* the list or the group has no such victim */
  AIMED_REPLACED,
};

/* Returns whether the victim is settled. */
static __always_inline int shoot_at(struct guard_state* state, struct volley* volley,
                                    const struct abi_guard_victim* victim) {
  __u32 way = ABI_GUARD_BY_NONE, kind = ABI_GUARD_DYING;
  int who = who_is(victim->tgid, victim->start_ns, victim->cgroup);

  if (who == VICTIM_UNKNOWN) return 0;
  if (who == VICTIM_OTHER) {
    /* Without bpf_task_from_pid, a victim that is not running cannot be distinguished from one that
     * is gone. */
    if (!can_signal_others() && !is_current(victim->tgid)) return 0;
    COUNT_GUARD(unapproved);
    return 1;
  }
  volley->workload_usage = usage_of_workload(victim->tgid, victim->cgroup);
  if (who == VICTIM_APPROVED) {
    way = send(victim, &volley->code);
    if (may_go_later(volley->code)) {
      COUNT_GUARD(refused);
      __sync_fetch_and_add(&state->refused, 1);
      return 0;
    }
    kind = volley->code ? ABI_GUARD_FAILED : ABI_GUARD_KILLED;
  }
  /* A process that exits by itself does not count: the crossing may be over with it. */
  if (kind == ABI_GUARD_KILLED) __sync_fetch_and_add(&state->reached, 1);
  report(state, volley, kind, way, victim);
  return 1;
}

/* What came of victim `i` of the kill that is under way. The caller has claimed it. */
static __always_inline int aim_claimed(__u32 index, struct abi_guard_slot* slot,
                                       struct guard_state* state, __u32 i, __u64 generation,
                                       __u32 hook) {
  struct volley volley = {.generation = generation, .hook = hook, .slot = index};
  struct abi_guard_victim victim;
  int replaced;

  /* The kill may have ended since the caller was selected for it, and a next one begun. */
  if (__sync_fetch_and_add(&state->shooting, 0) != generation) return AIMED_REPLACED;
  if (whose_turn() != TURN_OURS) return AIMED_REPLACED;
  if (!take_victim(slot, index, state->group, generation, i, &victim, &replaced))
    return replaced ? AIMED_REPLACED : AIMED_BEYOND;
  if (victim.group != state->group)
    return victim.group > state->group ? AIMED_BEYOND : AIMED_SETTLED;
  return shoot_at(state, &volley, &victim) ? AIMED_SETTLED : AIMED_LEFT;
}

__noinline int aim(__u32 index, __u32 i, __u64 generation, __u32 hook) {
  struct abi_guard_slot* slot = bpf_map_lookup_elem(&guard_slots, &index);
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  __u32 bit = 1U << (i & 31);
  int aimed;

  if (!slot || !state) return AIMED_BEYOND;
  if (*(volatile __u32*)&state->settled & bit) return AIMED_SETTLED;
  if (__sync_fetch_and_or(&state->claimed, bit) & bit) return AIMED_LEFT;
  aimed = aim_claimed(index, slot, state, i, generation, hook);
  if (aimed == AIMED_SETTLED) {
    __sync_fetch_and_or(&state->settled, bit);
  } else {
    __sync_fetch_and_and(&state->claimed, ~bit);
  }
  return aimed;
}

/* Ends the kill of this list once, and reports it if the list was given up. */
__noinline int cease(__u32 index, __u64 generation, __u32 hook, __u32 given_up) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct volley volley = {.generation = generation, .hook = hook, .slot = index};

  if (!state) return 0;
  if (__sync_val_compare_and_swap(&state->shooting, generation, 0) != generation) return 0;
  __sync_fetch_and_and(&pending, ~(1U << (index & 31)));
  if (given_up) report(state, &volley, ABI_GUARD_GIVEN_UP, ABI_GUARD_BY_NONE, 0);
  end_kill(index);
  return 0;
}

/* Signals the running process if it is in the standing list's victim. It may be younger than the
 * list. */
static __always_inline void shoot_current(struct abi_guard_slot* slot, struct guard_state* state,
                                          __u64 generation, __u32 hook) {
  struct volley volley = {.generation = generation, .hook = hook, .slot = ABI_GUARD_STANDING};
  struct abi_guard_victim victim;

  if (__sync_lock_test_and_set(&state->current_claimed, 1)) return;
  if (take_current(generation & 1, state->group, state->crossed_boot_ns + YOUNGER_NS, &victim) &&
      __sync_fetch_and_add(&state->shooting, 0) == generation &&
      in_force_ordered(slot) == generation && whose_turn() == TURN_OURS &&
      who_is(victim.tgid, victim.start_ns, victim.cgroup) == VICTIM_APPROVED)
    shoot_at(state, &volley, &victim);
  __sync_lock_test_and_set(&state->current_claimed, 0);
}

/* Signals each process of the group that is not settled yet. With `stay`, the kill goes on after
 * that. `left` is a sum, not a constant that a branch sets: the verifier would follow the rest of
 * the loop for both of its values. */
__noinline int shoot(__u32 index, __u64 generation, __u32 hook, __u32 stay) {
  __u32 left = unknown_zero();

  for (__u32 i = 0; i < ABI_GUARD_VICTIMS; i++) {
    int aimed = aim(index, i, generation, hook);

    if (aimed == AIMED_REPLACED) return cease(index, generation, hook, 1);
    if (aimed == AIMED_BEYOND) break;
    left |= aimed;
  }
  return left | stay ? 0 : cease(index, generation, hook, 0);
}

/* The group of victim `i` if it is still the approved process, or dying. -1: it is not; -2: the
 * list has no such victim, or its place is unknown, which ends the search; -3: the list is no
 * longer in force. */
__noinline int group_of(__u32 index, __u32 i, __u64 generation) {
  struct abi_guard_slot* slot = bpf_map_lookup_elem(&guard_slots, &index);
  struct abi_guard_victim victim;
  int replaced, who;

  if (!slot) return -2;
  if (!take_victim(slot, index, 0, generation, i, &victim, &replaced)) return replaced ? -3 : -2;
  who = who_is(victim.tgid, victim.start_ns, victim.cgroup);
  if (who == VICTIM_UNKNOWN) return -2;
  if (who != VICTIM_OTHER) return victim.group & 0xffff;
  COUNT_GUARD(unapproved);
  return -1;
}

/* The first group with a process left; negative: there is none. */
static __always_inline int first_group(__u32 index, __u64 generation) {
  int group = -2;

  if (!can_signal_others()) return 0;
  for (__u32 i = 0; i < ABI_GUARD_VICTIMS; i++) {
    group = group_of(index, i, generation);
    if (group != -1) break;
  }
  return group;
}

/* Begins the kill of that group, or reports that there is none (negative, as group_of()). Returns
 * whether a process is left to signal. REQUIRES: the caller owns the crossing. */
__noinline int begin(__u32 index, __u64 generation, __u32 hook, int group) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct volley volley = {.generation = generation, .hook = hook, .slot = index};

  if (!state) return 0;
  if (group < 0) {
    __u32 kind = group == -3 ? ABI_GUARD_GIVEN_UP : ABI_GUARD_NO_VICTIM;

    report(state, &volley, kind, ABI_GUARD_BY_NONE, 0);
    end_kill(index);
    return 0;
  }
  if (index != ABI_GUARD_STANDING) postpone_standing(state->crossed_ns + AFTER_REGULAR_NS);
  *(volatile __u32*)&state->group = group;
  /* An exchange, because another CPU must not find the kill begun with the group of a former one.
   */
  __sync_lock_test_and_set(&state->shooting, generation);
  __sync_fetch_and_or(&pending, 1U << (index & 31));
  return 1;
}

/* Reports the crossing. Returns the group of a regular list to kill, as group_of(). */
__noinline int cross(__u32 index, __u64 generation, __u32 hook) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct volley volley = {.generation = generation, .hook = hook, .slot = index};

  if (!state) return -2;
  state->claimed = 0;
  state->settled = 0;
  state->current_claimed = 0;
  state->refused = 0;
  state->reached = 0;
  report(state, &volley, ABI_GUARD_CROSSED, ABI_GUARD_BY_NONE, 0);
  return index == ABI_GUARD_STANDING ? 0 : first_group(index, generation);
}

#endif
