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
#include "bpf/lib/guard_usage.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/signal.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define CLOCK_MONOTONIC 1
#define CHECK_NS_MIN (1000 * 1000ULL)
/* The clocks also run far from every line, because a new list may lower a line. */
#define CHECK_NS_MAX (20 * 1000 * 1000ULL)
/* Upper bound on the rate at which this machine can fill memory; set before loading. */
const volatile __u64 fill_bytes_per_us = 8192;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ABI_GUARD_SLOTS);
  __type(key, __u32);
  __type(value, struct abi_guard_slot);
} guard_slots SEC(".maps");

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
/* Slots with pending signals, by bit. */
__u32 pending;

/* Arguments and results of guard_resolve and guard_identify; userspace runs one at a time. */
__u32 resolving_slot;
__u64 resolved_cgroup;
__u64 identify_within; /* cgroup id */
struct abi_guard_victim identified;

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
  report->code = volley->code;
  report->refused = state->refused;
  report->tgid = bpf_get_current_pid_tgid() >> 32;
  bpf_get_current_comm(report->comm, sizeof(report->comm));
  bpf_ringbuf_submit(report, BPF_RB_FORCE_WAKEUP);
}

/* ---- kills ---------------------------------------------------------------------------------- */

/* Copies victim `i` of the list; 0: there is none. *replaced: the list is no longer in force. */
static __always_inline int take_victim(struct abi_guard_slot* slot, __u64 generation, __u32 i,
                                       struct abi_guard_victim* victim, int* replaced) {
  struct abi_guard_list* list = &slot->banks[generation & 1];

  *replaced = 0;
  if (i >= ABI_GUARD_VICTIMS || i >= list->victim_count) return 0;
  *victim = list->victims[i];
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
  report(state, volley, kind, way, victim);
  return 1;
}

__noinline int aim(__u32 index, __u32 i, __u64 generation, __u32 hook) {
  struct abi_guard_slot* slot = bpf_map_lookup_elem(&guard_slots, &index);
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct volley volley = {.generation = generation, .hook = hook};
  struct abi_guard_victim victim;
  __u32 bit = 1U << (i & 31);
  int replaced;

  if (!slot || !state) return AIMED_BEYOND;
  if (!take_victim(slot, generation, i, &victim, &replaced))
    return replaced ? AIMED_REPLACED : AIMED_BEYOND;
  if (victim.group != state->group)
    return victim.group > state->group ? AIMED_BEYOND : AIMED_SETTLED;
  if (*(volatile __u32*)&state->settled & bit) return AIMED_SETTLED;
  if (__sync_fetch_and_or(&state->claimed, bit) & bit) return AIMED_LEFT;
  if (shoot_at(state, &volley, &victim)) {
    __sync_fetch_and_or(&state->settled, bit);
    return AIMED_SETTLED;
  }
  __sync_fetch_and_and(&state->claimed, ~bit);
  return AIMED_LEFT;
}

/* Ends the kill of this list once, and reports it if the list was given up. */
__noinline int cease(__u32 index, __u64 generation, __u32 hook, __u32 given_up) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct volley volley = {.generation = generation, .hook = hook};

  if (!state) return 0;
  if (__sync_val_compare_and_swap(&state->shooting, generation, 0) != generation) return 0;
  __sync_fetch_and_and(&pending, ~(1U << (index & 31)));
  if (given_up) report(state, &volley, ABI_GUARD_GIVEN_UP, ABI_GUARD_BY_NONE, 0);
  return 0;
}

/* Signals each process of the group that is not settled yet. `left` is a sum, not a constant that a
 * branch sets: the verifier would follow the rest of the loop for both of its values. */
__noinline int shoot(__u32 index, __u64 generation, __u32 hook) {
  __u32 left = unknown_zero();

  for (__u32 i = 0; i < ABI_GUARD_VICTIMS; i++) {
    int aimed = aim(index, i, generation, hook);

    if (aimed == AIMED_REPLACED) return cease(index, generation, hook, 1);
    if (aimed == AIMED_BEYOND) break;
    left |= aimed;
  }
  return left ? 0 : cease(index, generation, hook, 0);
}

/* The group of victim `i` if it is still the approved process, or dying. -1: it is not; -2: the
 * list has no such victim, or its place is unknown, which ends the search; -3: the list is no
 * longer in force. */
__noinline int group_of(__u32 index, __u32 i, __u64 generation) {
  struct abi_guard_slot* slot = bpf_map_lookup_elem(&guard_slots, &index);
  struct abi_guard_victim victim;
  int replaced, who;

  if (!slot) return -2;
  if (!take_victim(slot, generation, i, &victim, &replaced)) return replaced ? -3 : -2;
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

/* Begins the kill; returns whether a process is left to signal. REQUIRES: the caller owns the
 * crossing. */
__noinline int cross(__u32 index, __u64 generation, __u32 hook) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct volley volley = {.generation = generation, .hook = hook};
  int group;

  if (!state) return 0;
  COUNT_GUARD(crossings);
  state->claimed = 0;
  state->settled = 0;
  state->refused = 0;
  report(state, &volley, ABI_GUARD_CROSSED, ABI_GUARD_BY_NONE, 0);
  group = first_group(index, generation);
  if (group < 0) {
    __u32 kind = group == -3 ? ABI_GUARD_GIVEN_UP : ABI_GUARD_NO_VICTIM;

    report(state, &volley, kind, ABI_GUARD_BY_NONE, 0);
    return 0;
  }
  state->group = group;
  *(volatile __u64*)&state->shooting = generation;
  __sync_fetch_and_or(&pending, 1U << (index & 31));
  return 1;
}

/* ---- usage ---------------------------------------------------------------------------------- */

static __always_inline __u64 node_working_set(void) {
  struct abi_node_usage usage;

  read_node(&usage);
  return abi_node_working_set(&usage);
}

/* The earliest time at which a subject with this headroom can cross its line. */
static __always_inline __u64 time_to(__u64 now, __u64 headroom) {
  __u64 wait = headroom / fill_bytes_per_us * 1000;

  if (wait < CHECK_NS_MIN) wait = CHECK_NS_MIN;
  return now + (wait > CHECK_NS_MAX ? CHECK_NS_MAX : wait);
}

__noinline __u64 working_set(__u32 index, __u64 now, __u64 line, __u64 inactive_known) {
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);

  if (index == ABI_GUARD_NODE) return any_pgdat ? node_working_set() : 0;
  return state ? cgroup_working_set(index, state, now, line, inactive_known) : 0;
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

/* Checks a slot whose list may still fire; returns when it is due again. */
static __always_inline __u64 check_at(__u32 index, struct abi_guard_slot* slot,
                                      struct guard_state* state, __u64 generation, __u64 now,
                                      __u32 hook) {
  struct abi_guard_list* list = &slot->banks[generation & 1];
  __u64 line = list->line, seen = list->firings_read, usage;

  if (!claim_check(state, generation, now)) return *(volatile __u64*)&state->next_check_ns;
  COUNT_GUARD(usages_read);
  usage = working_set(index, now, line, list->inactive_file);
  if (usage < line) {
    state->next_check_ns = time_to(now, line - usage);
    return state->next_check_ns;
  }
  if (in_force_ordered(slot) == generation &&
      __sync_val_compare_and_swap(&slot->firings, seen, seen + 1) == seen) {
    state->crossed_ns = now;
    state->usage = usage;
    state->line = line;
    state->firings = seen + 1;
    if (cross(index, generation, hook)) shoot(index, generation, hook);
  }
  return now + CHECK_NS_MIN;
}

/* When the slot is due again; 0: no list is in force, or the list has fired. */
__noinline __u64 check(__u32 index, __u64 now, __u32 hook) {
  struct abi_guard_slot* slot = bpf_map_lookup_elem(&guard_slots, &index);
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct abi_guard_list* list;
  __u64 generation, shooting;
  int expired;

  if (!slot || !state) return 0;
  generation = in_force(slot);
  shooting = *(volatile __u64*)&state->shooting;
  if (!generation && !shooting) return 0;
  generation = in_force_ordered(slot); /* the list is read after this */
  list = &slot->banks[generation & 1];
  expired = !generation || list->generation != generation || list->expires_ns <= now;
  if (shooting && (expired || shooting != generation)) {
    cease(index, shooting, hook, 1);
    return expired ? 0 : now + CHECK_NS_MIN;
  }
  if (expired) return 0;
  if (shooting) {
    shoot(index, generation, hook);
    return now + CHECK_NS_MIN;
  }
  if (*(volatile __u64*)&slot->firings != list->firings_read) return 0;
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

/* ---- requests of userspace ------------------------------------------------------------------ */

/* Run once. Returns 0; 1: the root memcg was not found; 2: no node was found. */
SEC("syscall")
int guard_setup(void* ctx) {
  struct mem_cgroup* root = root_memcg();

  if (!root) return 1;
  return find_nodes(root) ? 0 : 2;
}

/* Whether a process other than the running one can be signalled: 1 or 0. */
SEC("syscall")
int guard_reach(void* ctx) {
  return can_signal_others();
}

/* Samples the usage that is compared with the slot's line. Returns 1 if the slot has no subject. */
SEC("syscall")
int guard_sample(struct abi_guard_sample* out) {
  __u32 index = out->slot;
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct mem_cgroup* memcg;
  __s64 inactive;

  if (!state) return 1;
  out->inactive_file = 0;
  out->exact = 1;
  if (index == ABI_GUARD_NODE) {
    if (!any_pgdat) return 1;
    out->usage = node_working_set();
    return 0;
  }
  memcg = (void*)state->memcg;
  if (!memcg || memcg_id(memcg) != state->cgroup) return 1;
  out->usage = memcg_usage(memcg);
  inactive = inactive_below((__u64)memcg);
  out->exact = inactive >= 0;
  if (out->exact) out->inactive_file = inactive;
  return 0;
}

/* Run on one cgroup directory (order SELF_ONLY): puts it into resolving_slot. */
SEC("iter/cgroup")
int guard_resolve(struct bpf_iter__cgroup* ctx) {
  __u64 address = (__u64)ctx->cgroup;
  __u32 slot = resolving_slot;
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &slot);
  struct mem_cgroup* memcg;

  if (!address || !state || slot == ABI_GUARD_NODE) return 0;
  memcg = memcg_of_cgroup((void*)address);
  resolved_cgroup = memcg ? memcg_id(memcg) : 0;
  state->memcg = resolved_cgroup ? (__u64)memcg : 0;
  state->cgroup = resolved_cgroup;
  state->next_check_ns = 0;
  state->next_walk_ns = 0;
  state->walked_ns = 0;
  state->inactive = 0;
  return 0;
}

/* Run on one thread: fills `identified` if it leads a process that may be killed and that lies
 * within identify_within. */
SEC("iter/task")
int guard_identify(struct bpf_iter__task* ctx) {
  struct task_struct* task = ctx->task;
  __u64 address = 0;
  __s32 tgid;

  /* As a number; see who_is(). */
  bpf_probe_read_kernel(&address, sizeof(address), &task);
  task = (void*)address;
  if (!task) return 0;
  tgid = BPF_CORE_READ(task, tgid);
  if (BPF_CORE_READ(task, pid) != tgid || is_never_killed(task, tgid) ||
      lies_within(address, identify_within) <= 0)
    return 0;
  identified.tgid = tgid;
  identified.start_ns = BPF_CORE_READ(task, start_boottime);
  identified.cgroup = identify_within;
  return 0;
}
