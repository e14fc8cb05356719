/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fires a watch when its usage reaches its line, in two ways that share one-shot lines:
 *  - A timer that re-arms itself reads usages. It reads a subject again after headroom / fastest
 *    possible fill rate, between 1 ms and 1 s. A subject far from its line costs one comparison per
 *    tick and nothing on a fault path. The timer stops when no line is armed.
 *  - If fexit is permitted, page_counter_try_charge detects the crossing itself. The kernel charges
 *    in batches of 64 pages per CPU, so this costs 0.2 % of a pure fault loop.
 */
#include "bpf/abi/watch.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/watches.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define CHECK_NS_MIN (1000 * 1000ULL)
#define CHECK_NS_MAX (1000 * 1000 * 1000ULL)
#define CLOCK_MONOTONIC 1

/* Upper bound on the rate at which this machine can fill memory; set before loading. */
const volatile __u64 fill_bytes_per_us = 8192;

/* Slots in use, including the node's two; set by userspace. */
__u32 slot_count;
/* Slot that resolve_cgroup fills next; set by userspace, which runs one resolution at a time. */
__u32 resolving_slot;
/* Id of the cgroup that resolve_cgroup put there; 0: it failed. */
__u64 resolved_cgroup;

/* ---- setup ---------------------------------------------------------------------------------- */

/* Run once by userspace. Returns 0; 1: the root memcg was not found; 2: no node, or not each of its
 * counters, was found. */
SEC("syscall")
int setup(void* ctx) {
  struct mem_cgroup* root = root_memcg();

  if (!root) return 1;
  memory_hierarchy = BPF_CORE_READ(root, css.cgroup, root, hierarchy_id);
  return find_nodes(root) ? 0 : 2;
}

/* Node counters on demand; userspace passes an abi_node_usage as the argument block. */
SEC("syscall")
int sample_node(struct abi_node_usage* out) {
  struct abi_node_usage usage;

  if (!any_pgdat) return 1;
  read_node(&usage);
  usage.free = walk_zones(any_pgdat);
  usage.available = read_available(any_pgdat);
  *out = usage;
  return 0;
}

/* ---- watched cgroups ------------------------------------------------------------------------ */

static __always_inline void relate(__u64 id, __u32 slot, __u32 watched) {
  struct abi_relation fresh = {.slot = slot, .watched = watched};
  struct abi_relation* present = bpf_map_lookup_elem(&relations, &id);

  if (present && (present->watched || !watched)) return;
  if (bpf_map_update_elem(&relations, &id, &fresh, BPF_ANY)) COUNT_FAILURE(watch_full);
}

struct relating {
  struct mem_cgroup* at;
  __u32 slot;
};

static long relate_parent(__u32 i, struct relating* relating) {
  relating->at = memcg_parent(relating->at);
  /* Without the root: reclaim of the whole node concerns no cgroup in particular. */
  if (!relating->at || !memcg_parent(relating->at)) {
    relating->at = 0;
    return 1;
  }
  relate(memcg_id(relating->at), relating->slot, 0);
  return 0;
}

static __always_inline void relate_ancestors(struct mem_cgroup* memcg, __u32 slot) {
  struct relating relating = {.at = memcg, .slot = slot};

  bpf_loop(TREE_LEVELS, relate_parent, &relating, 0);
  if (relating.at) COUNT_FAILURE(depth);
}

/* Run on one cgroup directory (order SELF_ONLY), of v2 or of a v1 hierarchy. */
SEC("iter/cgroup")
int resolve_cgroup(struct bpf_iter__cgroup* ctx) {
  __u64 address = (__u64)ctx->cgroup;
  __u32 slot = resolving_slot;
  struct subject* subject = bpf_map_lookup_elem(&subjects, &slot);
  struct mem_cgroup* memcg;
  __u64 id, counter;

  if (!address || !subject) return 0;
  memcg = memcg_of_cgroup((void*)address);
  id = memcg ? memcg_id(memcg) : 0;
  /* On v2 a cgroup without the memory controller has no memcg of its own. */
  if (!id) return 0;
  set_subject(subject, (__u64)memcg, id);
  counter = (__u64)memcg + bpf_core_field_offset(struct mem_cgroup, memory);
  if (bpf_map_update_elem(&charged, &counter, &slot, BPF_ANY)) COUNT_FAILURE(watch_full);
  relate(id, slot, 1);
  relate_ancestors(memcg, slot);
  resolved_cgroup = id;
  return 0;
}

/* ---- the timer ------------------------------------------------------------------------------ */

struct usage_clock {
  struct bpf_timer timer;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct usage_clock);
} usage_clocks SEC(".maps");

/* Number of armings, and its value at the timer's last tick. */
__u64 armings;
__u64 armings_seen;

struct round {
  __u64 now;
  __u64 nearest; /* when the next subject is due */
  __u32 all;     /* read every subject: a line was armed since the last round */
  __u32 armed;
};

/* Reads the usage to compare with the slot's line. Returns 0 if the subject is gone; else *cgroup
 * is its id. */
static __always_inline int read_usage(__u32 slot, struct subject* subject, __u64* cgroup,
                                      __u64* usage) {
  __u64 address;

  if (slot == ABI_WATCH_NODE) {
    struct abi_node_usage node;

    read_node(&node);
    *cgroup = 0;
    *usage = abi_node_working_set(&node);
    return 1;
  }
  if (slot == ABI_WATCH_TAKEN) {
    *cgroup = ABI_TAKEN_ID;
    *usage = abi_node_taken(read_available(any_pgdat));
    return *usage <= ABI_TAKEN_ORIGIN;
  }
  address = load_acquire(&subject->memcg);
  *cgroup = *(volatile __u64*)&subject->cgroup;
  if (!address) return 0;
  if (memcg_id((void*)address) != *cgroup) {
    __sync_val_compare_and_swap(&subject->memcg, address, 0);
    COUNT_FAILURE(stale);
    return 0;
  }
  *usage = memcg_usage((void*)address);
  return 1;
}

static long check_slot(__u32 slot, struct round* round) {
  struct abi_watch* watch = bpf_map_lookup_elem(&watches, &slot);
  struct subject* subject = bpf_map_lookup_elem(&subjects, &slot);
  struct abi_reading reading = {.begin_ns = round->now};
  __u64 line, cgroup = 0, wait;

  if (!watch || !subject) return 1;
  line = *(volatile __u64*)&watch->line;
  if (!line || (slot >= ABI_WATCH_CGROUPS && !*(volatile __u64*)&subject->memcg)) return 0;
  if (round->all || subject->next_check_ns <= round->now) {
    COUNT(usages_read);
    if (!read_usage(slot, subject, &cgroup, &reading.usage)) return 0;
    reading.end_ns = bpf_ktime_get_ns();
    wait = 0;
    if (reading.usage >= line) {
      /* The event passes on the reading before. */
      fire_if_crossed(slot, cgroup, reading.usage, ABI_EVENT_usage_timer);
      note_reading(slot, cgroup, &reading, 1);
      /* If the ring was full the line is still armed: read it again soon. */
      if (!*(volatile __u64*)&watch->line) return 0;
    } else {
      note_reading(slot, cgroup, &reading, 0);
      wait = (line - reading.usage) / fill_bytes_per_us * 1000;
    }
    if (wait < CHECK_NS_MIN) wait = CHECK_NS_MIN;
    if (wait > CHECK_NS_MAX) wait = CHECK_NS_MAX;
    subject->next_check_ns = round->now + wait;
  }
  round->armed = 1;
  if (subject->next_check_ns < round->nearest) round->nearest = subject->next_check_ns;
  return 0;
}

static int tick(void* map, __u32* key, struct usage_clock* clock) {
  __u64 seen = *(volatile __u64*)&armings;
  struct round round = {.now = bpf_ktime_get_ns(), .all = seen != armings_seen};
  __u64 wait;

  armings_seen = seen;
  round.nearest = round.now + CHECK_NS_MAX;
  COUNT(ticks);
  __u32 slots = slot_count < ABI_WATCH_SLOTS ? slot_count : ABI_WATCH_SLOTS;

  if (bpf_loop(slots, check_slot, &round, 0) < 0) COUNT_FAILURE(timer);
  wait = round.nearest > round.now + CHECK_NS_MIN ? round.nearest - round.now : CHECK_NS_MIN;
  if (round.armed && bpf_timer_start(&clock->timer, wait, 0)) COUNT_FAILURE(timer);
  /* A line was armed during the round. Its bpf_timer_start() may have come before the one above. */
  if (*(volatile __u64*)&armings != seen && bpf_timer_start(&clock->timer, 0, 0))
    COUNT_FAILURE(timer);
  return 0;
}

/* Run by userspace after arming: makes the timer read every subject now. Returns 0 or a negative
 * errno. */
SEC("syscall")
int start_timer(void* ctx) {
  __u32 key = 0;
  struct usage_clock* clock = bpf_map_lookup_elem(&usage_clocks, &key);
  long error;

  if (!clock) return -2;
  /* Fails with EBUSY once the timer is initialized. */
  if (!bpf_timer_init(&clock->timer, &usage_clocks, CLOCK_MONOTONIC)) {
    error = bpf_timer_set_callback(&clock->timer, tick);
    if (error) return error;
  }
  __sync_fetch_and_add(&armings, 1);
  return bpf_timer_start(&clock->timer, 0, 0);
}

/* ---- the exact crossing --------------------------------------------------------------------- */

static __always_inline void check_charge(struct page_counter* counter, __u32 slot, __u64 failed) {
  struct abi_watch* watch = bpf_map_lookup_elem(&watches, &slot);
  struct subject* subject = bpf_map_lookup_elem(&subjects, &slot);
  __u64 usage = ((__u64)BPF_CORE_READ(counter, usage.counter) + failed) << page_shift;

  if (!subject || !watch || usage < *(volatile __u64*)&watch->line) return;
  /* The address of a removed cgroup's counter may have been reused. */
  if (subject->memcg && memcg_id((void*)subject->memcg) == subject->cgroup)
    fire_if_crossed(slot, subject->cgroup, usage, ABI_EVENT_charge);
}

struct charge_climb {
  __u64 counter;
  __u64 failed; /* pages of a refused charge, which usage does not include */
};

static long check_level(__u32 i, struct charge_climb* climb) {
  struct page_counter* level = (void*)climb->counter;
  __u64 key = climb->counter;
  __u32* slot;

  if (!level) return 1;
  slot = bpf_map_lookup_elem(&charged, &key);
  if (slot) check_charge(level, *slot, climb->failed);
  climb->counter = (__u64)BPF_CORE_READ(level, parent);
  return 0;
}

/* bool page_counter_try_charge(counter, nr_pages, **fail): checks each level from the leaf up, as
 * the function does. On success the usage includes the charge. On failure it does not, so the pages
 * are added. */
SEC("fexit/page_counter_try_charge")
int charge(void* ctx) {
  __u64 pages = ARG(ctx, 1);
  int charged_in_full = ARG(ctx, 3) & 0xff;
  struct charge_climb climb = {.counter = ARG(ctx, 0), .failed = charged_in_full ? 0 : pages};

  if (slot_count <= ABI_WATCH_CGROUPS) return 0;
  bpf_loop(TREE_LEVELS, check_level, &climb, 0);
  if (climb.counter) COUNT_FAILURE(depth);
  return 0;
}
