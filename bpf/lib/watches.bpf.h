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

/* The subject of a slot. Only programs write this map, so that no kernel address leaves the kernel.
 */
struct subject {
  __u64 memcg;  /* address; 0: none */
  __u64 cgroup; /* id the address must still have when it is read */
  __u64 next_check_ns;
  /* The timer's last reading: when it began, and what it read. 0: none of this subject. */
  __u64 read_ns;
  __u64 read_usage;
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

/* The timer's reading before, of the same subject. It writes the time last, so that a charge on
 * another CPU never sees an earlier usage with a later time. */
static __always_inline void add_last_reading(__u32 slot, struct abi_event* event) {
  struct subject* subject = bpf_map_lookup_elem(&subjects, &slot);

  if (!subject) return;
  event->read_ns = *(volatile __u64*)&subject->read_ns;
  event->read_usage = *(volatile __u64*)&subject->read_usage;
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
    subject->memcg = 0;
    bpf_map_delete_elem(&charged, &counter);
  }
  bpf_map_delete_elem(&relations, &id);
}

#endif
