/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard kills processes that the policy has approved, when memory is nearly exhausted and
 * userspace is stopped or starved. It is a separate object, loaded only if the guard is on.
 *
 * Detecting a crossing and sending the signal are separate steps. Any hook may detect a crossing;
 * the one that wins the compare-and-exchange on the slot's `firings` owns it. The kernel may refuse
 * to send: it accepts a signal only from a context with an mm (nmi_uaccess_okay() in kernel/trace/
 * bpf_trace.c), which the idle task and kernel threads lack. A refused signal stays pending, and
 * the next hook retries it:
 *  - A clock on every CPU. A single clock stays on its CPU, and while that CPU idles it fails for
 *    seconds (measured: 7.7 s). But the task that fills the memory runs on some CPU, and the clock
 *    of that CPU interrupts it.
 *  - Reclaim by an allocating task.
 *  - If fexit is permitted, every batch of charges.
 * A kernel before 6.13 cannot signal another task. There the guard kills a victim only while it is
 * the current task, which a process that fills the memory soon is.
 *
 * The tracepoint programs are tp_btf, because raw_tp programs may not call task kfuncs before 7.2.
 * They never read their arguments: the verifier assumes non-NULL, and 7.2 passes NULL.
 */
#define RING_BYTES (16 * 1024)

#include "bpf/abi/guard.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/guard_kill.bpf.h"
#include "bpf/lib/guard_usage.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/signal.bpf.h"
#include "bpf/lib/standing.bpf.h"
#include "bpf/lib/turn.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define CLOCK_MONOTONIC 1
#define CHECK_NS_MIN (1000 * 1000ULL)
/* The clocks also run far from every line, because a new list may lower a line. */
#define CHECK_NS_MAX (20 * 1000 * 1000ULL)
/* The same while only the standing list is in force, which may last for days. A regular list then
 * starts the clocks again. */
#define STANDING_NS_MAX (250 * 1000 * 1000ULL)
/* The kill of a standing list is given up after that: userspace has not read what changed since. */
#define STANDING_SHOT_NS (3 * 1000 * 1000 * 1000ULL)
/* After a crossing without a victim, and after one that could not be read. */
#define STANDING_NONE_NS (250 * 1000 * 1000ULL)
#define STANDING_UNREAD_NS (10 * 1000 * 1000ULL)
#define STANDING_UNREAD_DOUBLINGS 4
/* Crossings of one list that are over before a signal is sent; each takes room in the ring. */
#define STANDING_FORGIVEN_MAX 8
/* Upper bound on the rate at which this machine can fill memory; set before loading. */
const volatile __u64 fill_bytes_per_us = 8192;

struct guard_clock {
  struct bpf_timer timer;
};

/* One for each CPU; their number is set before loading. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, ABI_GUARD_CPUS);
  __type(key, __u32);
  __type(value, struct guard_clock);
} guard_clocks SEC(".maps");

/* Running clocks, by index. A clock stops when no list is in force. */
__u32 running[ABI_GUARD_CPUS];
/* Number of publications. A clock that is about to stop checks for a new one. */
__u64 armings;

/* ---- usage ---------------------------------------------------------------------------------- */

/* The earliest time at which a subject with this headroom can cross its line. */
static __always_inline __u64 time_to(__u32 index, __u64 now, __u64 headroom) {
  __u64 wait = headroom / fill_bytes_per_us * 1000;
  __u64 longest = index == ABI_GUARD_STANDING ? STANDING_NS_MAX : CHECK_NS_MAX;

  if (wait < CHECK_NS_MIN) wait = CHECK_NS_MIN;
  return now + (wait > longest ? longest : wait);
}

/* What is compared with the line of a list; 0: unknown, which is below any line. */
__noinline __u64 compared(__u32 index, __u64 now, __u64 line, __u64 inactive_known) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  __u64 usage;

  if (!state) return 0;
  if (index == ABI_GUARD_NODE) return any_pgdat ? node_working_set() : 0;
  if (index == ABI_GUARD_STANDING && !state->cgroup) return node_taken();
  usage = cgroup_working_set(index, state, now, line, inactive_known);
  /* The standing list does not fire on an estimate. */
  return index == ABI_GUARD_STANDING && usage >= line && state->unread ? line - 1 : usage;
}

/* Whether a check is due and this CPU may take it. One CPU is enough, because the walk may be long.
 * If that CPU is delayed, another one may check after CHECK_NS_MIN. */
static __always_inline int claim_check(struct guard_state* state, __u64 generation, __u64 now) {
  __u64 due = *(volatile __u64*)&state->next_check_ns;

  if (state->checked_for == generation && due > now) return 0;
  if (__sync_val_compare_and_swap(&state->next_check_ns, due, now + CHECK_NS_MIN) != due) return 0;
  state->checked_for = generation;
  return 1;
}

/* Whether a list whose slot has fired so often may fire. */
static __always_inline int may_fire(const struct abi_guard_list* list,
                                    const struct guard_state* state, __u64 generation,
                                    __u64 firings) {
  if (firings == list->firings_read) return 1;
  return state->forgiven_for == generation && firings == *(volatile __u64*)&state->forgiven;
}

/* Whether this caller's crossing is the one that counts; `seen` firings before it. */
static __always_inline int fires(__u32 index, struct abi_guard_slot* slot,
                                 struct guard_state* state, __u64 generation, __u64 seen,
                                 __u64 usage) {
  if (in_force_ordered(slot) != generation ||
      __sync_val_compare_and_swap(&slot->firings, seen, seen + 1) != seen || !begin_kill(index))
    return 0;
  state->crossed_ns = bpf_ktime_get_ns();
  state->crossed_boot_ns = bpf_ktime_get_boot_ns();
  state->usage = usage;
  state->line = slot->banks[generation & 1].line;
  state->firings = seen + 1;
  COUNT_GUARD(crossings);
  return 1;
}

/* Reports once for a list that a crossing has no victim. */
static __always_inline void report_no_victim(struct guard_state* state, __u64 generation,
                                             __u64 usage, __u64 line, __u32 hook) {
  if (state->no_victim == generation) return;
  state->no_victim = generation;
  state->crossed_ns = bpf_ktime_get_ns();
  state->usage = usage;
  state->line = line;
  begin(ABI_GUARD_STANDING, generation, hook, STANDING_NONE);
}

/* A workload that cannot be read costs much, so it is tried less and less often. */
static __always_inline void wait_without_victim(struct guard_state* state, int group) {
  __u32 times = state->unread_times < STANDING_UNREAD_DOUBLINGS ? state->unread_times
                                                                : STANDING_UNREAD_DOUBLINGS;

  state->unread_times = group == STANDING_UNREAD ? times + 1 : 0;
  state->next_check_ns =
      bpf_ktime_get_ns() +
      (group == STANDING_UNREAD ? STANDING_UNREAD_NS << (times & 7) : STANDING_NONE_NS);
}

/* Selects a victim of the standing list and begins its kill. Without one the list is not spent.
 * Returns when the slot is due again. */
static __always_inline __u64 choose_and_begin(struct abi_guard_slot* slot,
                                              struct guard_state* state, __u64 generation,
                                              __u64 seen, __u64 usage, __u32 hook) {
  struct abi_guard_list* list = &slot->banks[generation & 1];
  __u32 index = ABI_GUARD_STANDING;
  int group;

  if (state->cgroup && memcg_limit((void*)state->memcg) != list->limit)
    return state->next_check_ns = bpf_ktime_get_ns() + STANDING_NONE_NS;
  group = choose_standing(generation & 1, list->workload_count, list->by_growth,
                          above(usage, list->usage));
  if (group >= 0) {
    if (fires(index, slot, state, generation, seen, usage)) {
      cross(index, generation, hook);
      /* After the count of crossings: userspace postpones, then reads that count. One of the two
       * finds the other. */
      if (in_force_ordered(slot) != generation || standing_postponed() > state->crossed_ns)
        group = -3;
      if (begin(index, generation, hook, group)) shoot(index, generation, hook, 1);
    }
    return bpf_ktime_get_ns() + CHECK_NS_MIN;
  }
  wait_without_victim(state, group);
  if (group == STANDING_NONE && in_force_ordered(slot) == generation)
    report_no_victim(state, generation, usage, list->line, hook);
  return state->next_check_ns;
}

/* Checks a slot whose list may still fire; returns when it is due again. */
static __always_inline __u64 check_at(__u32 index, struct abi_guard_slot* slot,
                                      struct guard_state* state, __u64 generation, __u64 now,
                                      __u32 hook) {
  struct abi_guard_list* list = &slot->banks[generation & 1];
  __u64 line = list->line, seen = *(volatile __u64*)&slot->firings, usage, due;

  /* Another CPU selects: the clock of this one is needed for what follows. */
  if (*(volatile __u64*)&state->choosing) return now + CHECK_NS_MIN;
  if (!may_fire(list, state, generation, seen))
    return index == ABI_GUARD_STANDING ? now + STANDING_NS_MAX : 0;
  if (!claim_check(state, generation, now)) return *(volatile __u64*)&state->next_check_ns;
  COUNT_GUARD(usages_read);
  usage = compared(index, now, line, list->inactive_file);
  if (usage < line) {
    state->next_check_ns = time_to(index, now, line - usage);
    return state->next_check_ns;
  }
  if (__sync_val_compare_and_swap(&state->choosing, 0, generation)) return now + CHECK_NS_MIN;
  due = now + CHECK_NS_MIN;
  if (index == ABI_GUARD_STANDING) {
    due = choose_and_begin(slot, state, generation, seen, usage, hook);
  } else if (fires(index, slot, state, generation, seen, usage)) {
    if (begin(index, generation, hook, cross(index, generation, hook)))
      shoot(index, generation, hook, 0);
  }
  __sync_lock_test_and_set(&state->choosing, 0);
  return due;
}

/* Whether the subject of the standing list is still above its line. The inactive pages of a cgroup
 * are those of the crossing. */
__noinline int still_crossed(__u64 line) {
  __u32 index = ABI_GUARD_STANDING;
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);

  if (!state) return 0;
  if (!state->cgroup) return node_taken() >= line;
  if (memcg_id((void*)state->memcg) != state->cgroup) return 0;
  return above(memcg_usage((void*)state->memcg), state->inactive) >= line;
}

/* Ends a kill for which no signal was sent; the list may fire again. Not while another CPU is about
 * to send one. */
static __always_inline void forgive(struct guard_state* state, __u64 generation, __u64 now,
                                    __u32 hook) {
  __u32 current = __sync_lock_test_and_set(&state->current_claimed, 1);
  __u32 claimed = __sync_fetch_and_or(&state->claimed, ~0U);

  if (current || (claimed & ~*(volatile __u32*)&state->settled) ||
      *(volatile __u32*)&state->reached) {
    __sync_fetch_and_and(&state->claimed, claimed);
    if (!current) __sync_lock_test_and_set(&state->current_claimed, 0);
    return;
  }
  COUNT_GUARD(withdrawn);
  if (state->forgiven_for != generation) state->forgiven_times = 0;
  state->forgiven_for = generation;
  if (state->forgiven_times++ < STANDING_FORGIVEN_MAX) state->forgiven = state->firings;
  state->next_check_ns = now + STANDING_NONE_NS;
  cease(ABI_GUARD_STANDING, generation, hook, 1);
}

/* Goes on with the kill of the standing list. Before Linux 6.13 a victim is signalled when it runs,
 * and by then memory may be back, or userspace: then the crossing does not count. */
static __always_inline void go_on_standing(struct abi_guard_slot* slot, struct guard_state* state,
                                           __u64 generation, __u64 now, __u32 hook) {
  int crossed = still_crossed(state->line), over = now > state->crossed_ns + STANDING_SHOT_NS;
  int decides = standing_postponed() > now;

  if (!*(volatile __u32*)&state->reached && (!crossed || over || decides)) {
    forgive(state, generation, now, hook);
  } else if (over) {
    cease(ABI_GUARD_STANDING, generation, hook, 1);
  } else {
    if (crossed) shoot_current(slot, state, generation, hook);
    shoot(ABI_GUARD_STANDING, generation, hook, crossed);
  }
}

/* When the slot is due again; 0: no list is in force, or the list has fired. */
__noinline __u64 check(__u32 index, __u64 now, __u32 hook) {
  struct abi_guard_slot* slot = bpf_map_lookup_elem(&guard_slots, &index);
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct abi_guard_list* list;
  __u64 generation, shooting, not_before;
  int expired, turn;

  if (!slot || !state) return 0;
  generation = in_force(slot);
  shooting = *(volatile __u64*)&state->shooting;
  if (!generation && !shooting) return 0;
  generation = in_force_ordered(slot); /* the list is read after this */
  list = &slot->banks[generation & 1];
  turn = whose_turn();
  expired =
      turn == TURN_PAST || !generation || list->generation != generation || list->expires_ns <= now;
  if (shooting && (expired || shooting != generation)) {
    cease(index, shooting, hook, 1);
    return expired ? 0 : now + CHECK_NS_MIN;
  }
  if (expired) return 0;
  /* The clocks go on: the turn comes without another start. */
  if (turn == TURN_TO_COME || *(volatile __u64*)&held_until > now) return now + CHECK_NS_MAX;
  if (shooting) {
    if (index == ABI_GUARD_STANDING) {
      go_on_standing(slot, state, generation, now, hook);
    } else {
      shoot(index, generation, hook, 0);
    }
    return now + CHECK_NS_MIN;
  }
  not_before = standing_postponed();
  if (index == ABI_GUARD_STANDING && not_before > now)
    return not_before < now + STANDING_NS_MAX ? not_before : now + STANDING_NS_MAX;
  return check_at(index, slot, state, generation, now, hook);
}

#define NEVER (~0ULL)

/* Time to the next round; 0: no list is in force. */
static __always_inline __u64 run_round(__u32 hook) {
  __u64 now = bpf_ktime_get_ns(), nearest = NEVER;

  for (__u32 index = 0; index < ABI_GUARD_SLOTS; index++) {
    __u64 due = check(index, now, hook);

    /* 0 becomes the largest number. */
    if (due - 1 < nearest) nearest = due - 1;
  }
  if (nearest == NEVER) return 0;
  nearest++;
  return nearest > now + CHECK_NS_MIN ? nearest - now : CHECK_NS_MIN;
}

/* ---- the hooks ------------------------------------------------------------------------------ */

/* First in the object: if the kernel refuses fexit, it does so before it verifies the rest. */
SEC("fexit/page_counter_try_charge")
int guard_charge(void* ctx) {
  if (*(volatile __u32*)&pending) run_round(ABI_GUARD_CHARGE);
  return 0;
}

/* The mask proves to the verifier that the index is in range. */
static __always_inline __u32* running_of(__u32 cpu) {
  cpu &= ABI_GUARD_CPUS - 1;
  barrier_var(cpu);
  return &running[cpu];
}

/* The callback restarts its own timer, so the timer stays on the CPU that started it. */
static int tick(void* map, __u32* key, struct guard_clock* clock) {
  __u64 seen = *(volatile __u64*)&armings, wait;
  __u32* runs = running_of(*key);

  COUNT_GUARD(ticks);
  wait = run_round(ABI_GUARD_TIMER);
  if (!wait) {
    /* An exchange, because the store must precede the read of `armings`. */
    __sync_lock_test_and_set(runs, 0);
    if (*(volatile __u64*)&armings == seen) return 0;
    *runs = 1;
    wait = CHECK_NS_MIN;
  }
  if (bpf_timer_start(&clock->timer, wait, 0)) {
    COUNT_GUARD(timer);
    *runs = 0;
  }
  return 0;
}

/* Run by userspace on the CPU whose index it passes. With ABI_GUARD_NO_CLOCK, runs a round at once
 * in the caller's context; not a program of its own, because the verifier would follow the whole
 * guard once more. Returns 0 or a negative errno. */
SEC("syscall")
int guard_start_clock(__u32* index) {
  __u32 cpu = *index;
  struct guard_clock* clock;
  long error;

  if (cpu == ABI_GUARD_NO_CLOCK) {
    run_round(ABI_GUARD_COMMAND);
    return 0;
  }
  clock = bpf_map_lookup_elem(&guard_clocks, &cpu);
  if (!clock) return -2;
  /* Fails with EBUSY once the timer is initialized. */
  if (!bpf_timer_init(&clock->timer, &guard_clocks, CLOCK_MONOTONIC)) {
    error = bpf_timer_set_callback(&clock->timer, tick);
    if (error) return error;
  }
  *running_of(cpu) = 1;
  error = bpf_timer_start(&clock->timer, 0, 0);
  if (error) *running_of(cpu) = 0;
  return error;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int guard_memcg_reclaim(void* ctx) {
  run_round(ABI_GUARD_RECLAIM);
  return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int guard_direct_reclaim(void* ctx) {
  run_round(ABI_GUARD_RECLAIM);
  return 0;
}

#include "bpf/lib/guard_requests.bpf.h"
