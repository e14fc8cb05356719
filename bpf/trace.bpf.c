/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs of `forestall trace`.
 *
 * They pair begin and end of reclaim, compaction, throttling and PSI stalls per thread, and emit a
 * record at the end: its length and, for reclaim, the pages scanned and freed. They also record OOM
 * kills, and the names of cgroups as they appear, so that even a short-lived cgroup has a name. All
 * spans are summed before any filter and even if the ring is full, so the totals agree with
 * /proc/vmstat although records may be lost.
 *
 * Only the tracer loads this object. The agent's object must be cheap on an idle machine; this one
 * must be cheap at 200,000 spans a second. So each thread has one hash entry, which stays from its
 * first stall until it exits, and no record wakes a reader that is awake.
 */
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/reclaim.bpf.h"
#include "bpf/lib/score.bpf.h"

#include "bpf/abi/trace.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- options: set before loading ------------------------------------------------------------ */

const volatile __u64 shortest_ns = 0;  /* shorter spans are summed, not recorded */
const volatile __u8 reports_events = 1;         /* records, besides sums */
const volatile __u8 reports_begins = 0;  /* records of begins too */
const volatile __u8 sums = 0;          /* by cgroup */
const volatile __u8 filters = 0;       /* only spans in a cgroup of `wanted` */
const volatile __s32 hierarchy = 0;    /* hierarchy_id of the memory controller */
const volatile __u32 lru_argument = 6; /* index of mm_vmscan_lru_isolate's lru */

/* ---- maps ----------------------------------------------------------------------------------- */

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 8 * 1024 * 1024); /* userspace changes it before loading */
} records SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct abi_trace_totals);
} totals SEC(".maps");

/* Not preallocated, because few cgroups ever stall. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 8192);
  __type(key, struct abi_trace_key);
  __type(value, struct abi_trace_sum);
} sums_by_cgroup SEC(".maps");

/* The filter: ids of cgroups. Their descendants pass too. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ABI_TRACE_WANTED);
  __type(key, __u64);
  __type(value, __u8);
} wanted SEC(".maps");

/* Open spans of a thread. */
struct open_task {
  __u64 begin_ns[ABI_TRACE_SPANS]; /* 0: not open */
  __u64 subject;
  /* The open reclaim: a thread has one at a time. */
  __u64 reclaims; /* its kind, plus one; 0: none */
  __u64 scanned;
  __u64 taken;
  __u64 reclaimed;
};

static const struct open_task nothing_open;
static const struct abi_trace_sum no_sum;

/* Preallocated, because entries are made during reclaim, when nothing should be allocated. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, __u32); /* thread */
  __type(value, struct open_task);
} open_tasks SEC(".maps");

/* A reader sets it before it waits for the next record; the program that wakes the reader clears
 * it. While records are frequent the reader polls, and no stalling task pays for a wake-up. */
__u32 reader_waits = 0;

static __always_inline struct abi_trace_totals* own_totals(void) {
  __u32 key = 0;

  return bpf_map_lookup_elem(&totals, &key);
}

/* Adds to this CPU's counter. Atomic, because a tracepoint may preempt an fentry program, which
 * stalls use. */
#define ADD(kind, member, add)                       \
  do {                                               \
    if ((kind) == ABI_TRACE_stall)                   \
      __sync_fetch_and_add(&(member), (__u64)(add)); \
    else                                             \
      (member) += (add);                             \
  } while (0)

#define TOTAL(kind, member, add)                      \
  do {                                                \
    struct abi_trace_totals* all = own_totals();      \
    if (all) ADD(kind, all->kinds[kind].member, add); \
  } while (0)

#define COUNT_FAILURE(name)                                                     \
  do {                                                                          \
    struct abi_trace_totals* all = own_totals();                                \
    if (all) __sync_fetch_and_add(&all->failures[ABI_TRACE_FAILURE_##name], 1); \
  } while (0)

#include "bpf/lib/psi.bpf.h"

static __always_inline __u32 current_tid(void) {
  return (__u32)bpf_get_current_pid_tgid();
}

/* Wakes the reader only if it waits. */
static __always_inline __u64 wake_flags(void) {
  if (!*(volatile __u32*)&reader_waits) return BPF_RB_NO_WAKEUP;
  return __sync_val_compare_and_swap(&reader_waits, 1, 0) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Reserves a record with the fields that all kinds share; the rest is 0. NULL (and counted) if the
 * ring is full. `size` is a constant. */
static __always_inline void* record_begin(__u32 kind, __u64 size, __u64 now) {
  struct abi_trace_event* event = bpf_ringbuf_reserve(&records, size, 0);
  __u64 ids = bpf_get_current_pid_tgid();

  if (!event) {
    TOTAL(kind, dropped, 1);
    return 0;
  }
  __builtin_memset(event, 0, size);
  event->kind = kind;
  event->at_ns = now;
  event->pid = (__u32)ids;
  event->tgid = ids >> 32;
  bpf_get_current_comm(event->comm, sizeof(event->comm));
  return event;
}

static __always_inline void record_end(void* event) {
  bpf_ringbuf_submit(event, wake_flags());
}

/* ---- filters and sums ----------------------------------------------------------------------- */

struct wanted_climb {
  struct mem_cgroup* at;
  __u32 found;
};

static long climb_to_wanted(__u32 i, struct wanted_climb* climb) {
  __u64 id;

  if (!climb->at) return 1;
  id = memcg_id(climb->at);
  if (bpf_map_lookup_elem(&wanted, &id)) {
    climb->found = 1;
    return 1;
  }
  climb->at = memcg_parent(climb->at);
  return 0;
}

static __always_inline int is_wanted(struct mem_cgroup* memcg) {
  struct wanted_climb climb = {.at = memcg};

  if (!filters) return 1;
  bpf_loop(TREE_LEVELS, climb_to_wanted, &climb, 0);
  return climb.found;
}

static __always_inline __u32 bucket_of(__u64 ns) {
  __u64 us = ns / 1000;
  __u32 bucket = 0;

  /* log2 by bisection, without a loop. */
  if (us >> 32) return ABI_TRACE_BUCKETS - 1;
  if (us >> 16) bucket += 16, us >>= 16;
  if (us >> 8) bucket += 8, us >>= 8;
  if (us >> 4) bucket += 4, us >>= 4;
  if (us >> 2) bucket += 2, us >>= 2;
  if (us >> 1) bucket += 1, us >>= 1;
  bucket += us;
  return bucket < ABI_TRACE_BUCKETS ? bucket : ABI_TRACE_BUCKETS - 1;
}

static __always_inline void add_to_sum(__u32 kind, __u64 cgroup, __u64 ns,
                                       const struct open_task* task) {
  struct abi_trace_key key = {.cgroup = cgroup, .kind = kind};
  struct abi_trace_sum* sum = bpf_map_lookup_elem(&sums_by_cgroup, &key);
  __u32 bucket = bucket_of(ns);

  if (!sum) {
    /* Another CPU may have added it first, so only a failed lookup afterwards is a failure. */
    bpf_map_update_elem(&sums_by_cgroup, &key, &no_sum, BPF_NOEXIST);
    sum = bpf_map_lookup_elem(&sums_by_cgroup, &key);
  }
  if (!sum) {
    COUNT_FAILURE(sum_full);
    return;
  }
  sum->count += 1;
  sum->ns += ns;
  if (ns > sum->longest_ns) sum->longest_ns = ns;
  if (task) {
    sum->scanned += task->scanned;
    sum->taken += task->taken;
    sum->reclaimed += task->reclaimed;
  }
  if (bucket < ABI_TRACE_BUCKETS) sum->buckets[bucket] += 1;
}

/* ---- pairing -------------------------------------------------------------------------------- */

static __always_inline struct open_task* open_task_of(__u32 tid) {
  struct open_task* task = bpf_map_lookup_elem(&open_tasks, &tid);

  if (task) return task;
  bpf_map_update_elem(&open_tasks, &tid, &nothing_open, BPF_NOEXIST);
  return bpf_map_lookup_elem(&open_tasks, &tid);
}

static __always_inline int reclaims(__u32 kind) {
  return kind == ABI_TRACE_memcg_reclaim || kind == ABI_TRACE_direct_reclaim ||
         kind == ABI_TRACE_kswapd;
}

/* `value`: for the record of the begin; kswapd's NUMA node. */
static __always_inline struct open_task* span_begin(__u32 kind, __s32 value) {
  struct open_task* task = open_task_of(current_tid());
  __u64 now = bpf_ktime_get_ns();
  struct abi_trace_event* event;
  struct mem_cgroup* memcg;

  if (!task) {
    COUNT_FAILURE(open_full);
    return 0;
  }
  task->begin_ns[kind] = now;
  if (reclaims(kind)) {
    task->subject = task->scanned = task->taken = task->reclaimed = 0;
    task->reclaims = kind + 1;
  }
  if (!reports_events || !reports_begins) return task;
  memcg = memcg_of_task((void*)bpf_get_current_task());
  if (!is_wanted(memcg)) return task;
  event = record_begin(kind, sizeof(*event), now);
  if (!event) return task;
  event->flags = ABI_TRACE_BEGIN;
  event->value = value;
  event->cgroup = memcg_id(memcg);
  record_end(event);
  return task;
}

/* Records, sums or skips a span that has ended. `task` is NULL for a span that is not a reclaim. */
static __always_inline void report_span(__u32 kind, __u64 now, __u64 ns, __s32 value,
                                      const struct open_task* task) {
  struct abi_trace_totals* all = own_totals();
  struct abi_trace_event* event;
  struct abi_trace_total* total;
  struct mem_cgroup* memcg;
  __u64 cgroup;

  if (!all) return;
  total = &all->kinds[kind];
  ADD(kind, total->count, 1);
  ADD(kind, total->ns, ns);
  if (ns < shortest_ns) {
    ADD(kind, total->passed, 1);
    return;
  }
  memcg = memcg_of_task((void*)bpf_get_current_task());
  if (!is_wanted(memcg)) {
    ADD(kind, total->passed, 1);
    return;
  }
  cgroup = memcg_id(memcg);
  if (sums) add_to_sum(kind, cgroup, ns, task);
  if (!reports_events) return;
  event = record_begin(kind, sizeof(*event), now);
  if (!event) return;
  event->length_ns = ns;
  event->cgroup = cgroup;
  event->value = value;
  if (task) {
    event->subject = task->subject;
    event->scanned = task->scanned;
    event->taken = task->taken;
    event->reclaimed = task->reclaimed;
  }
  ADD(kind, total->reported, 1);
  record_end(event);
}

/* Since 6.16 sched_process_exit comes before exit_mm(), where a thread may still stall. This
 * removes the entry that such a stall makes. */
static __always_inline void forget_exiting(const struct open_task* task, __u32 tid) {
  struct task_struct* current = (void*)bpf_get_current_task();

  if (!(BPF_CORE_READ(current, flags) & PF_EXITING)) return;
  for (int i = 0; i < ABI_TRACE_SPANS; i++)
    if (task->begin_ns[i]) return;
  bpf_map_delete_elem(&open_tasks, &tid);
}

/* `reclaimed`: the kernel's own count of freed pages, including slab; used if the programs saw no
 * page leave an LRU list. Negative: unknown. */
static __always_inline void span_end(__u32 kind, __s64 reclaimed, __s32 value) {
  __u32 tid = current_tid();
  struct open_task* task = bpf_map_lookup_elem(&open_tasks, &tid);
  __u64 now = bpf_ktime_get_ns();
  __u64 begin;

  begin = task ? task->begin_ns[kind] : 0;
  if (!begin) {
    /* The span began before the programs were attached, or the map was full. */
    COUNT_FAILURE(unpaired);
    return;
  }
  task->begin_ns[kind] = 0;
  if (reclaims(kind)) {
    task->reclaims = 0;
    if (!task->reclaimed && reclaimed > 0) {
      task->reclaimed = reclaimed;
      TOTAL(kind, reclaimed, reclaimed);
    }
  }
  report_span(kind, now, now - begin, value, reclaims(kind) ? task : 0);
  forget_exiting(task, tid);
}

/* ---- reclaim -------------------------------------------------------------------------------- */

SEC("raw_tp/mm_vmscan_memcg_reclaim_begin")
int memcg_reclaim_begin(struct bpf_raw_tracepoint_args* ctx) {
  struct open_task* task = span_begin(ABI_TRACE_memcg_reclaim, 0);

  if (task)
    task->subject = memcg_id(reclaimed_memcg(ctx, memcg_of_task((void*)bpf_get_current_task())));
  return 0;
}

/* (nr_reclaimed[, memcg]): the memcg of 7.2 may be NULL; the program does not use it. */
SEC("raw_tp/mm_vmscan_memcg_reclaim_end")
int memcg_reclaim_end(struct bpf_raw_tracepoint_args* ctx) {
  span_end(ABI_TRACE_memcg_reclaim, ctx->args[0], 0);
  return 0;
}

/* The memcg of 7.2 is NULL here if the whole node is short; the program does not use it. */
SEC("raw_tp/mm_vmscan_direct_reclaim_begin")
int direct_reclaim_begin(struct bpf_raw_tracepoint_args* ctx) {
  span_begin(ABI_TRACE_direct_reclaim, 0);
  return 0;
}

SEC("raw_tp/mm_vmscan_direct_reclaim_end")
int direct_reclaim_end(struct bpf_raw_tracepoint_args* ctx) {
  span_end(ABI_TRACE_direct_reclaim, ctx->args[0], 0);
  return 0;
}

/* (nid, zid, order), in kswapd itself; also if kswapd is already awake. */
SEC("raw_tp/mm_vmscan_kswapd_wake")
int kswapd_wake(struct bpf_raw_tracepoint_args* ctx) {
  __u32 tid = current_tid();
  struct open_task* task = bpf_map_lookup_elem(&open_tasks, &tid);

  if (task && task->begin_ns[ABI_TRACE_kswapd]) return 0;
  span_begin(ABI_TRACE_kswapd, (__s32)ctx->args[0]);
  return 0;
}

/* (nid). kswapd also sleeps before its first wake, where no span ends. */
SEC("raw_tp/mm_vmscan_kswapd_sleep")
int kswapd_sleep(struct bpf_raw_tracepoint_args* ctx) {
  __u32 tid = current_tid();
  struct open_task* task = bpf_map_lookup_elem(&open_tasks, &tid);

  if (task && task->begin_ns[ABI_TRACE_kswapd]) span_end(ABI_TRACE_kswapd, -1, (__s32)ctx->args[0]);
  return 0;
}

/* The current thread's open reclaim; NULL: none, or it began before the programs were attached. */
static __always_inline struct open_task* reclaiming_task(void) {
  __u32 tid = current_tid();
  struct open_task* task = bpf_map_lookup_elem(&open_tasks, &tid);

  return task && task->reclaims ? task : 0;
}

/* Pages count in the totals at once, because a run of kswapd may last minutes. */
static __always_inline struct abi_trace_total* total_of(const struct open_task* task) {
  struct abi_trace_totals* all = own_totals();
  __u64 kind = task->reclaims - 1;

  return all && kind < ABI_TRACE_SPANS ? &all->kinds[kind] : 0;
}

/* (highest_zoneidx, order, nr_requested, nr_scanned, nr_skipped, nr_taken, [isolate_mode,] lru);
 * 6.7 removed the mode. Inactive lists have even numbers (enum lru_list). As in the kernel, a move
 * from an active list to an inactive one does not count as scanned. */
SEC("raw_tp/mm_vmscan_lru_isolate")
int lru_isolate(struct bpf_raw_tracepoint_args* ctx) {
  struct open_task* task = reclaiming_task();
  struct abi_trace_total* total;
  __u64 lru;

  /* The compiler must not merge the two loads into one with a computed offset, which the verifier
   * refuses. */
  if (lru_argument == 7) {
    lru = ctx->args[7];
    asm volatile("" : "+r"(lru));
  } else {
    lru = ctx->args[6];
    asm volatile("" : "+r"(lru));
  }
  if (!task || (lru & 1)) return 0;
  task->scanned += ctx->args[3];
  task->taken += ctx->args[5];
  total = total_of(task);
  if (!total) return 0;
  total->scanned += ctx->args[3];
  total->taken += ctx->args[5];
  return 0;
}

/* (nid, nr_scanned, nr_reclaimed, stat, priority, file) */
SEC("raw_tp/mm_vmscan_lru_shrink_inactive")
int lru_shrink_inactive(struct bpf_raw_tracepoint_args* ctx) {
  struct open_task* task = reclaiming_task();
  struct abi_trace_total* total;

  if (!task) return 0;
  task->reclaimed += ctx->args[2];
  total = total_of(task);
  if (total) total->reclaimed += ctx->args[2];
  return 0;
}

/* (nid, usec_timeout, usec_delayed, reason), at the end of the wait. */
SEC("raw_tp/mm_vmscan_throttled")
int throttled(struct bpf_raw_tracepoint_args* ctx) {
  report_span(ABI_TRACE_throttled, bpf_ktime_get_ns(), (__u64)(__u32)ctx->args[2] * 1000,
            (__s32)ctx->args[3], 0);
  return 0;
}

/* (cc, zone_start, zone_end, sync[, status]) */
SEC("raw_tp/mm_compaction_begin")
int compaction_begin(struct bpf_raw_tracepoint_args* ctx) {
  span_begin(ABI_TRACE_compaction, 0);
  return 0;
}

SEC("raw_tp/mm_compaction_end")
int compaction_end(struct bpf_raw_tracepoint_args* ctx) {
  span_end(ABI_TRACE_compaction, -1, 0);
  return 0;
}

/* An exiting thread never reaches the end of its open spans. */
SEC("raw_tp/sched_process_exit")
int forget_task(struct bpf_raw_tracepoint_args* ctx) {
  __u32 tid = current_tid();

  bpf_map_delete_elem(&open_tasks, &tid);
  return 0;
}

/* ---- PSI ------------------------------------------------------------------------------------ */

SEC("fexit/psi_memstall_enter")
int memstall_enter(void* ctx) {
  if (!psi_stall_nested(ARG(ctx, 0))) span_begin(ABI_TRACE_stall, 0);
  return 0;
}

SEC("fentry/psi_memstall_leave")
int memstall_leave(void* ctx) {
  if (!psi_stall_nested(ARG(ctx, 0))) span_end(ABI_TRACE_stall, -1, 0);
  return 0;
}

/* ---- OOM kills ------------------------------------------------------------------------------ */

static __always_inline void describe_victim(struct abi_trace_oom_kill* kill,
                                            struct task_struct* victim) {
  struct mm_struct* mm = BPF_CORE_READ(victim, mm);
  __s64 pages[ABI_TASK_COUNTERS];

  kill->event.pid = BPF_CORE_READ(victim, pid);
  kill->event.tgid = BPF_CORE_READ(victim, tgid);
  kill->event.cgroup = memcg_id(memcg_of_task(victim));
  BPF_CORE_READ_STR_INTO(&kill->event.comm, victim, comm);
  kill->uid = BPF_CORE_READ(victim, cred, uid.val);
  kill->oom_score_adj = BPF_CORE_READ(victim, signal, oom_score_adj);
  if (!mm) return;
  mm_counted(mm, pages);
  kill->file_pages = pages[0];
  kill->anon_pages = pages[1];
  kill->swap_pages = pages[2];
  kill->shmem_pages = pages[3];
}

SEC("raw_tp/mark_victim")
int mark_victim(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_trace_oom_kill* kill;

  TOTAL(ABI_TRACE_oom_kill, count, 1);
  kill = record_begin(ABI_TRACE_oom_kill, sizeof(*kill), bpf_ktime_get_ns());
  if (!kill) return 0;
  kill->killer_pid = kill->event.pid;
  kill->killer_tgid = kill->event.tgid;
  __builtin_memcpy(kill->killer_comm, kill->event.comm, sizeof(kill->killer_comm));
  kill->file_pages = kill->anon_pages = kill->swap_pages = kill->shmem_pages = -1;
  if (mark_victim_passes_task) {
    describe_victim(kill, (void*)ctx->args[0]);
  } else {
    kill->event.pid = kill->event.tgid = (__s32)ctx->args[0];
    __builtin_memset(kill->event.comm, 0, sizeof(kill->event.comm));
  }
  TOTAL(ABI_TRACE_oom_kill, reported, 1);
  record_end(kill);
  return 0;
}

/* ---- names of cgroups ----------------------------------------------------------------------- */

static __always_inline int in_hierarchy(struct cgroup* cgroup) {
  return BPF_CORE_READ(cgroup, root, hierarchy_id) == hierarchy;
}

static __always_inline void report_path(struct cgroup* cgroup, const char* path) {
  struct abi_trace_path* record;

  if (!in_hierarchy(cgroup)) return;
  TOTAL(ABI_TRACE_path, count, 1);
  record = record_begin(ABI_TRACE_path, sizeof(*record), bpf_ktime_get_ns());
  if (!record) return;
  record->event.cgroup = BPF_CORE_READ(cgroup, kn, id);
  if (bpf_probe_read_kernel_str(record->path, sizeof(record->path), path) < 0) COUNT_FAILURE(read);
  TOTAL(ABI_TRACE_path, reported, 1);
  record_end(record);
}

/* (cgroup, path); the next two tracepoints have the same arguments. */
SEC("raw_tp/cgroup_mkdir")
int cgroup_mkdir(struct bpf_raw_tracepoint_args* ctx) {
  report_path((void*)ctx->args[0], (void*)ctx->args[1]);
  return 0;
}

SEC("raw_tp/cgroup_rename")
int cgroup_rename(struct bpf_raw_tracepoint_args* ctx) {
  report_path((void*)ctx->args[0], (void*)ctx->args[1]);
  return 0;
}

SEC("raw_tp/cgroup_rmdir")
int cgroup_rmdir(struct bpf_raw_tracepoint_args* ctx) {
  struct cgroup* cgroup = (void*)ctx->args[0];
  struct abi_trace_event* event;

  if (!in_hierarchy(cgroup)) return 0;
  TOTAL(ABI_TRACE_removed, count, 1);
  event = record_begin(ABI_TRACE_removed, sizeof(*event), bpf_ktime_get_ns());
  if (!event) return 0;
  event->cgroup = BPF_CORE_READ(cgroup, kn, id);
  TOTAL(ABI_TRACE_removed, reported, 1);
  record_end(event);
  return 0;
}
