/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reclaim and stalls.
 *
 * The programs pair begin and end of memcg reclaim, direct reclaim, PSI memory stalls and kswapd
 * runs per thread, and sum them per cgroup. Under pressure these happen thousands of times a
 * second, so an event for each would flood userspace. Events are emitted only when reclaim begins
 * in, above or below a watched cgroup, when kswapd wakes, and when a watched cgroup has stalled for
 * STALL_NS. Each is rate-limited.
 */
#include "bpf/abi/stall.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/psi.bpf.h"
#include "bpf/lib/reclaim.bpf.h"
#include "bpf/lib/stalls.bpf.h"
#include "bpf/lib/unknown.bpf.h"
#include "bpf/lib/watches.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* An event is emitted when a watched cgroup's tasks stalled for STALL_NS within WINDOW_NS. */
#define STALL_NS (20 * 1000 * 1000ULL)
#define WINDOW_NS (1000 * 1000 * 1000ULL)
/* kswapd wakes each time free memory falls below a low watermark, also on a healthy host that
 * caches files. */
#define KSWAPD_QUIET_NS (100 * 1000 * 1000ULL)

__u64 last_kswapd_ns;

/* ---- pairing and summing -------------------------------------------------------------------- */

static __always_inline __u32 current_tid(void) {
  return (__u32)bpf_get_current_pid_tgid();
}

struct watched_climb {
  struct mem_cgroup* at;
  __u64 found[ABI_STALL_WATCHED]; /* ids, lowest first */
  __u32 count;
};

static long climb_to_watched(__u32 i, struct watched_climb* climb) {
  struct abi_relation* relation;
  __u64 id;

  if (!climb->at) return 1;
  id = memcg_id(climb->at);
  relation = id ? bpf_map_lookup_elem(&relations, &id) : 0;
  if (relation && relation->watched) {
    if (climb->count >= ABI_STALL_WATCHED) {
      COUNT_FAILURE(depth);
      return 1;
    }
    climb->found[climb->count++] = id;
  }
  climb->at = memcg_parent(climb->at);
  return 0;
}

/* Ids from the task's cgroup up, without the root. In a deeper tree, the last ones are those of the
 * watched ancestors further up: the depth of its tree does not hide a tenant's stalls. */
static __always_inline void list_cgroups(struct mem_cgroup* memcg, __u64* cgroups) {
  struct watched_climb climb = {.count = unknown_zero()};

  for (int i = 0; i < ABI_STALL_LEVELS; i++) {
    struct mem_cgroup* parent = memcg ? memcg_parent(memcg) : 0;

    if (!parent) return;
    cgroups[i] = memcg_id(memcg);
    memcg = parent;
  }
  if (!memcg || !memcg_parent(memcg)) return;
  climb.at = memcg;
  bpf_loop(TREE_LEVELS, climb_to_watched, &climb, 0);
  for (int i = 0; i < ABI_STALL_WATCHED; i++) cgroups[ABI_STALL_LEVELS + i] = climb.found[i];
  COUNT_FAILURE(depth);
}

static __always_inline void stall_begin(__u32 kind) {
  struct abi_open_key key = {.tid = current_tid(), .kind = kind};
  struct abi_open_stall open = {.begin_ns = bpf_ktime_get_ns()};

  if (kind != ABI_STALL_KSWAPD)
    list_cgroups(memcg_of_task((void*)bpf_get_current_task()), open.cgroups);
  if (bpf_map_update_elem(&open_stalls, &key, &open, BPF_ANY)) COUNT_FAILURE(open_full);
}

/* A global function, see approval.bpf.h. */
__noinline int add_stall(__u64 cgroup, __u32 kind, __u64 ns, __u64 pages) {
  struct abi_stall* sum = bpf_map_lookup_elem(&stalls, &cgroup);

  if (kind >= ABI_STALL_KINDS) return 0;
  if (!sum) {
    /* Another CPU may have added it first, so only a failed lookup afterwards is a failure. */
    bpf_map_update_elem(&stalls, &cgroup, &no_stall, BPF_NOEXIST);
    sum = bpf_map_lookup_elem(&stalls, &cgroup);
  }
  if (!sum) {
    COUNT_FAILURE(stall_full);
    return 0;
  }
  sum->sums[kind].ns += ns;
  sum->sums[kind].count += 1;
  sum->sums[kind].pages += pages;
  return 0;
}

/* Emits an event once per window when a watched subject has stalled for STALL_NS in it. A global
 * function, see approval.bpf.h. */
__noinline int announce_stall(__u64 cgroup, __u64 now, __u64 ns) {
  struct abi_relation* relation = bpf_map_lookup_elem(&relations, &cgroup);
  struct abi_event* event;
  __u64 begin, before;

  if (!relation || !relation->watched) return 0;
  begin = *(volatile __u64*)&relation->window_begin_ns;
  if (passed(begin, now, WINDOW_NS) &&
      __sync_val_compare_and_swap(&relation->window_begin_ns, begin, now) == begin)
    relation->stalled_ns = 0;
  before = __sync_fetch_and_add(&relation->stalled_ns, ns);
  if (before >= STALL_NS || before + ns < STALL_NS) return 0;
  event = event_begin(ABI_EVENT_stall);
  if (!event) return 0;
  event->cgroup = cgroup;
  event->stalled_ns = before + ns;
  event->pid = current_tid();
  event->tgid = bpf_get_current_pid_tgid() >> 32;
  event_end(event, ABI_EVENT_stall);
  return 0;
}

static __always_inline void stall_end(__u32 kind, __u64 pages) {
  struct abi_open_key key = {.tid = current_tid(), .kind = kind};
  struct abi_open_stall *found = bpf_map_lookup_elem(&open_stalls, &key), open;
  __u64 now = bpf_ktime_get_ns(), ns;

  /* The stall began before the program was attached. */
  if (!found) return;
  open = *found;
  bpf_map_delete_elem(&open_stalls, &key);
  ns = now - open.begin_ns;
  add_stall(0, kind, ns, pages);
  if (kind == ABI_STALL_PSI) announce_stall(0, now, ns);
  for (int i = 0; i < ABI_STALL_LEVELS + ABI_STALL_WATCHED && open.cgroups[i]; i++) {
    add_stall(open.cgroups[i], kind, ns, pages);
    if (kind == ABI_STALL_PSI) announce_stall(open.cgroups[i], now, ns);
  }
}

/* ---- announcing reclaim --------------------------------------------------------------------- */

static __always_inline void report_reclaim(__u64 cgroup, struct abi_relation* relation) {
  struct abi_event* event;

  if (!after_quiet(&relation->last_reclaim_ns, bpf_ktime_get_ns(), QUIET_NS)) {
    COUNT(quieted[ABI_EVENT_reclaim]);
    return;
  }
  event = event_begin(ABI_EVENT_reclaim);
  if (!event) return;
  event->cgroup = cgroup;
  event->pid = current_tid();
  event->tgid = bpf_get_current_pid_tgid() >> 32;
  event_end(event, ABI_EVENT_reclaim);
}

/* Emits an event if the reclaimed cgroup is watched, or is an ancestor or descendant of a watched
 * one. */
struct related_climb {
  struct mem_cgroup* at;
  __u64 found; /* id */
};

static long climb_to_related(__u32 i, struct related_climb* climb) {
  struct abi_relation* relation;
  __u64 id;

  if (!climb->at) return 1;
  id = memcg_id(climb->at);
  relation = id ? bpf_map_lookup_elem(&relations, &id) : 0;
  /* An ancestor of a watched cgroup counts only if it is the reclaimed cgroup itself. */
  if (relation && (relation->watched || i == 0)) {
    climb->found = id;
    climb->at = 0;
    return 1;
  }
  climb->at = memcg_parent(climb->at);
  return 0;
}

static __always_inline void announce_reclaim(struct mem_cgroup* memcg) {
  struct related_climb climb = {.at = memcg};
  struct abi_relation* relation;
  __u64 id;

  bpf_loop(TREE_LEVELS, climb_to_related, &climb, 0);
  if (climb.at) COUNT_FAILURE(depth);
  id = climb.found;
  relation = id ? bpf_map_lookup_elem(&relations, &id) : 0;
  if (relation) report_reclaim(id, relation);
}

/* ---- the hooks ------------------------------------------------------------------------------ */

SEC("raw_tp/mm_vmscan_memcg_reclaim_begin")
int memcg_reclaim_begin(struct bpf_raw_tracepoint_args* ctx) {
  stall_begin(ABI_STALL_MEMCG_RECLAIM);
  announce_reclaim(reclaimed_memcg(ctx, memcg_of_task((void*)bpf_get_current_task())));
  return 0;
}

/* (nr_reclaimed[, memcg]): the memcg of 7.2 may be NULL; the program does not use it. */
SEC("raw_tp/mm_vmscan_memcg_reclaim_end")
int memcg_reclaim_end(struct bpf_raw_tracepoint_args* ctx) {
  stall_end(ABI_STALL_MEMCG_RECLAIM, ctx->args[0]);
  return 0;
}

/* The memcg of 7.2 is NULL here if the whole node is short; the program does not use it. */
SEC("raw_tp/mm_vmscan_direct_reclaim_begin")
int direct_reclaim_begin(struct bpf_raw_tracepoint_args* ctx) {
  __u64 node = 0;
  struct abi_relation* relation = bpf_map_lookup_elem(&relations, &node);

  stall_begin(ABI_STALL_DIRECT_RECLAIM);
  if (relation) report_reclaim(0, relation);
  return 0;
}

SEC("raw_tp/mm_vmscan_direct_reclaim_end")
int direct_reclaim_end(struct bpf_raw_tracepoint_args* ctx) {
  stall_end(ABI_STALL_DIRECT_RECLAIM, ctx->args[0]);
  return 0;
}

/* (nid, zid, order), in kswapd itself. It also fires if kswapd is already awake. */
SEC("raw_tp/mm_vmscan_kswapd_wake")
int kswapd_wake(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_open_key key = {.tid = current_tid(), .kind = ABI_STALL_KSWAPD};
  struct abi_event* event;

  if (!bpf_map_lookup_elem(&open_stalls, &key)) stall_begin(ABI_STALL_KSWAPD);
  if (!after_quiet(&last_kswapd_ns, bpf_ktime_get_ns(), KSWAPD_QUIET_NS)) {
    COUNT(quieted[ABI_EVENT_kswapd]);
    return 0;
  }
  event = event_begin(ABI_EVENT_kswapd);
  if (!event) return 0;
  event->value = (__s32)ctx->args[0];
  event_end(event, ABI_EVENT_kswapd);
  return 0;
}

SEC("raw_tp/mm_vmscan_kswapd_sleep")
int kswapd_sleep(struct bpf_raw_tracepoint_args* ctx) {
  stall_end(ABI_STALL_KSWAPD, 0);
  return 0;
}

/* A thread that exits inside a stall never reaches the stall's end. */
SEC("raw_tp/sched_process_exit")
int forget_task(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_open_key key = {.tid = current_tid()};

  for (__u32 kind = 0; kind < ABI_STALL_KINDS; kind++) {
    key.kind = kind;
    bpf_map_delete_elem(&open_stalls, &key);
  }
  return 0;
}

SEC("fexit/psi_memstall_enter")
int memstall_enter(void* ctx) {
  if (!psi_stall_nested(ARG(ctx, 0))) stall_begin(ABI_STALL_PSI);
  return 0;
}

SEC("fentry/psi_memstall_leave")
int memstall_leave(void* ctx) {
  if (!psi_stall_nested(ARG(ctx, 0))) stall_end(ABI_STALL_PSI, 0);
  return 0;
}
