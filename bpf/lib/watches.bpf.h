/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The watched subjects. The iterator (usage.bpf.c) resolves each once, the event programs read
 * them, and cgroup_rmdir removes them.
 */
#ifndef FORESTALL_BPF_WATCHES_BPF_H
#define FORESTALL_BPF_WATCHES_BPF_H

#include "bpf/abi/watch.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"

/* Memory-mapped. Userspace arms a slot; the program that fires it clears it. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ABI_WATCH_SLOTS);
  __type(key, __u32);
  __type(value, struct abi_watch);
} watches __weak SEC(".maps");

/* Memory-mapped: userspace reads it at an evaluation. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ABI_WATCH_SLOTS);
  __type(key, __u32);
  __type(value, struct abi_readings);
} readings __weak SEC(".maps");

/* The subject of a slot. Only programs write this map, so that no kernel address leaves the kernel.
 */
struct subject {
  __u64 memcg;  /* address; 0: none. Stored after the id, and read before it. */
  __u64 cgroup; /* id the address must still have when it is read */
  __u64 next_check_ns;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, ABI_WATCH_SLOTS);
  __type(key, __u32);
  __type(value, struct subject);
} subjects __weak SEC(".maps");

/* Cgroups whose reclaim and stalls are reported. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ABI_WATCH_SLOTS * 8);
  __type(key, __u64); /* cgroup id; 0: the node */
  __type(value, struct abi_relation);
} relations __weak SEC(".maps");

/* page_counter address of a watched cgroup -> slot, for the charge hook. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ABI_WATCH_SLOTS);
  __type(key, __u64);
  __type(value, __u32);
} charged __weak SEC(".maps");

/* hierarchy_id of the memory controller; found by setup (usage.bpf.c). */
int memory_hierarchy __weak = -1;

/* Programs have no fences, and only the processor orders plain stores: x86 does, arm64 does not. An
 * exchange whose result is used is ordered with all accesses around it, on every architecture. */
static __always_inline void store_release(__u64* at, __u64 value) {
  __sync_lock_test_and_set(at, value);
}

static __always_inline __u64 load_acquire(__u64* at) {
  return __sync_fetch_and_or(at, 0);
}

/* Least time between two events of one kind about one subject, for kinds that report pressure and
 * not a crossing. The first event makes userspace read fresh values, so more add nothing. */
#define QUIET_NS (20 * 1000 * 1000ULL)

/* Whether `ns` have passed since `then`. Signed, because another CPU may have stored a time
 * slightly after our `now`. */
static __always_inline int passed(__u64 then, __u64 now, __u64 ns) {
  return (__s64)(now - then) >= (__s64)ns;
}

/* Whether this CPU may emit the event now; advances *last if so. */
static __always_inline int after_quiet(__u64* last, __u64 now, __u64 quiet) {
  __u64 seen = *(volatile __u64*)last;

  return passed(seen, now, quiet) && __sync_val_compare_and_swap(last, seen, now) == seen;
}

/* Names the subject of a slot. A tick on another CPU that still has the previous address compares
 * it with the id of the same subject or finds that they differ. */
static __always_inline void set_subject(struct subject* subject, __u64 memcg, __u64 cgroup) {
  store_release(&subject->memcg, 0);
  *(volatile __u64*)&subject->cgroup = cgroup;
  *(volatile __u64*)&subject->next_check_ns = 0;
  store_release(&subject->memcg, memcg);
}

/* Only the timer calls it, so there is one writer. `cgroup` is the id that the reading was verified
 * with, which may be that of the slot's previous subject. */
static __always_inline void note_reading(__u32 slot, __u64 cgroup,
                                         const struct abi_reading* reading, int reached) {
  struct abi_readings* all = bpf_map_lookup_elem(&readings, &slot);
  struct abi_reading none = {};
  __u64 sequence;

  if (!all) return;
  sequence = *(volatile __u64*)&all->sequence + 1;
  store_release(&all->sequence, sequence);
  if (all->cgroup != cgroup) {
    all->cgroup = cgroup;
    all->below = none;
    all->reached = none;
  }
  if (reached)
    all->reached = *reading;
  else
    all->below = *reading;
  store_release(&all->sequence, sequence + 1);
}

/* The timer's last reading below a line, of the same subject; without a valid copy there is none.
 */
static __always_inline void add_last_reading(__u32 slot, struct abi_event* event) {
  struct abi_readings* all = bpf_map_lookup_elem(&readings, &slot);
  __u64 sequence, cgroup, at, usage;

  if (!all) return;
  sequence = load_acquire(&all->sequence);
  cgroup = *(volatile __u64*)&all->cgroup;
  at = *(volatile __u64*)&all->below.begin_ns;
  usage = *(volatile __u64*)&all->below.usage;
  if (sequence & 1 || load_acquire(&all->sequence) != sequence || cgroup != event->cgroup) return;
  event->read_ns = at;
  event->read_usage = usage;
}

/* Fires the slot if `usage` is at or above its line: once per arming, whichever program finds the
 * crossing first. If the ring is full the slot stays armed, and the next check tries again. */
static __always_inline void fire_if_crossed(__u32 slot, __u64 cgroup, __u64 usage, __u32 kind) {
  struct abi_watch* watch = bpf_map_lookup_elem(&watches, &slot);
  struct abi_event* event;
  __u64 line;

  if (!watch) return;
  line = *(volatile __u64*)&watch->line;
  if (!line || usage < line) return;
  if (__sync_val_compare_and_swap(&watch->line, line, 0) != line) return;
  event = event_begin(kind);
  if (!event) {
    __sync_val_compare_and_swap(&watch->line, 0, line);
    return;
  }
  event->cgroup = cgroup;
  event->usage = usage;
  event->line = line;
  add_last_reading(slot, event);
  event_end(event, kind);
}

/* Removes a cgroup from the maps. When the tracepoint fires its css may already be detached, so the
 * address comes from the slot. */
static __always_inline void forget_cgroup(__u64 id) {
  struct abi_relation* relation = bpf_map_lookup_elem(&relations, &id);
  struct subject* subject;
  __u64 counter;
  __u32 slot;

  if (!relation) return;
  slot = relation->slot;
  if (relation->watched && (subject = bpf_map_lookup_elem(&subjects, &slot))) {
    counter = subject->memcg + bpf_core_field_offset(struct mem_cgroup, memory);
    store_release(&subject->memcg, 0);
    bpf_map_delete_elem(&charged, &counter);
  }
  bpf_map_delete_elem(&relations, &id);
}

#endif
