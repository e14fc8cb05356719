/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The counters and the ring buffer. They share a file because an event that does not fit is counted
 * where the ring refuses it.
 */
#ifndef FORESTALL_BPF_COUNTERS_BPF_H
#define FORESTALL_BPF_COUNTERS_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_helpers.h>

#include "bpf/abi/counters.h"
#include "bpf/abi/event.h"

/* An object with few events defines a smaller ring. A power of two, at least a page. */
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

/* Adds one to a member of this CPU's counters. The add is atomic because the timer may interrupt a
 * tracepoint program on the same CPU. */
#define COUNT(member)                                                        \
  do {                                                                       \
    __u32 count_key = 0;                                                     \
    struct abi_counters* count = bpf_map_lookup_elem(&counters, &count_key); \
    if (count) __sync_fetch_and_add(&count->member, 1);                      \
  } while (0)

#define COUNT_FAILURE(name) COUNT(failures[ABI_FAILURE_##name])

/* One bit for each kind that wakes userspace. */
enum {
#define WAKING_BIT(name, wakes) | (wakes << ABI_EVENT_##name)
  WAKING_KINDS = 0 ABI_EVENT_KINDS(WAKING_BIT)
#undef WAKING_BIT
};

/* Reserves a record that begins with an event; all of it is 0 except kind and time. NULL (and
 * counted) if the ring is full. An event that does not wake userspace may use only the first three
 * quarters of the ring, which leaves room for crossings. `size` is a constant. */
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

/* Submits the event. The wake-up is forced: by default the ring wakes only a reader that has
 * drained it, and earlier events may not have woken it. */
static __always_inline void event_end(struct abi_event* event, __u32 kind) {
  COUNT(emitted[kind]);
  bpf_ringbuf_submit(event, WAKING_KINDS & (1 << kind) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
