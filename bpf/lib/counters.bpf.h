/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counting, and the ring buffer: the two ways out of the kernel. They stand together because an
 * event that does not fit must be counted in the same place where it is refused.
 */
#ifndef FORESTALL_BPF_COUNTERS_BPF_H
#define FORESTALL_BPF_COUNTERS_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* After vmlinux.h, whose types they use. */
#include <bpf/bpf_helpers.h>

#include "bpf/abi/counters.h"
#include "bpf/abi/event.h"

/* An object with little to tell makes its ring smaller. A power of two, at least a page. */
#ifndef RING_BYTES
#define RING_BYTES (256 * 1024)
#endif

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct abi_counters);
} counters __weak SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, RING_BYTES);
} ring __weak SEC(".maps");

/* Adds one to a member of this CPU's counters. A tracepoint program may be interrupted by the timer
 * on the same CPU: the add is atomic so that neither loses the other's. */
#define COUNT(member)                                                        \
  do {                                                                       \
    __u32 count_key = 0;                                                     \
    struct abi_counters* count = bpf_map_lookup_elem(&counters, &count_key); \
    if (count) __sync_fetch_and_add(&count->member, 1);                      \
  } while (0)

#define COUNT_FAILURE(name) COUNT(failures[ABI_FAILURE_##name])

/* One bit for each kind that wakes. */
enum {
#define WAKING_BIT(name, wakes) | (wakes << ABI_EVENT_##name)
  WAKING_KINDS = 0 ABI_EVENT_KINDS(WAKING_BIT)
#undef WAKING_BIT
};

/* Reserves a record that begins with an event, zeroed but for kind and time; NULL (and counted)
 * when the ring is full. An event that does not wake may only use the first three quarters of the
 * ring, so that news nobody waits for never costs a crossing its place. `size` is a constant. */
static __always_inline void* record_begin(__u32 kind, __u64 size) {
  struct abi_event* event = 0;

  if ((WAKING_KINDS & (1 << kind)) ||
      bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < RING_BYTES / 4 * 3)
    event = bpf_ringbuf_reserve(&ring, size, 0);
  if (!event) {
    COUNT(dropped[kind]);
    return 0;
  }
  __builtin_memset(event, 0, size);
  event->kind = kind;
  event->at_ns = bpf_ktime_get_ns();
  return event;
}

static __always_inline struct abi_event* event_begin(__u32 kind) {
  return record_begin(kind, sizeof(struct abi_event));
}

/* Hands it over. The wake-up is forced, because by default the ring wakes only a reader that has
 * read everything, which a reader that was not woken for the event before has not. */
static __always_inline void event_end(struct abi_event* event, __u32 kind) {
  COUNT(emitted[kind]);
  bpf_ringbuf_submit(event, WAKING_KINDS & (1 << kind) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
