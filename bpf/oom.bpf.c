/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of the kernel's OOM killer.
 *
 * mark_victim reports each victim with its memory, the allocating task and the cgroup at its limit.
 * If fentry is permitted, the functions of the OOM path report before a victim is chosen, and the
 * program keeps struct oom_control for the next mark_victim of the same thread. Writes to
 * oom_score_adj are reported because they change the kernel's choice.
 */
#include "bpf/abi/oom_kill.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/score.bpf.h"
#include "bpf/lib/watches.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The kernel calls out_of_memory repeatedly while the victim exits. */
__u64 last_call_ns;

static __always_inline void describe(struct abi_event* event, struct task_struct* task) {
  event->pid = BPF_CORE_READ(task, pid);
  event->tgid = BPF_CORE_READ(task, tgid);
  event->uid = BPF_CORE_READ(task, cred, uid.val);
  event->value = BPF_CORE_READ(task, signal, oom_score_adj);
  event->cgroup = memcg_id(memcg_of_task(task));
  BPF_CORE_READ_STR_INTO(&event->comm, task, comm);
}

/* ---- struct oom_control --------------------------------------------------------------------- */

/* Saved at the entry of oom_kill_process(), by thread: one OOM kill runs in one thread. */
struct verdict {
  __u64 memcg;  /* address; 0: not a memcg's OOM */
  __u64 chosen; /* address of the chosen task's group leader */
  __s64 points;
  __u64 total_pages;
  __s32 chosen_tgid;
  __u32 constraint;
};

/* More than can run at once: each OOM kill holds a lock of its domain. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, __u32); /* thread */
  __type(value, struct verdict);
} verdicts SEC(".maps");

static __always_inline void keep_verdict(struct oom_control* oc) {
  __u32 thread = (__u32)bpf_get_current_pid_tgid();
  struct task_struct* chosen = BPF_CORE_READ(oc, chosen);
  struct verdict verdict = {
      .memcg = (__u64)BPF_CORE_READ(oc, memcg),
      .points = BPF_CORE_READ(oc, chosen_points),
      .total_pages = BPF_CORE_READ(oc, totalpages),
      .constraint = BPF_CORE_READ(oc, constraint),
  };

  verdict.chosen = (__u64)BPF_CORE_READ(chosen, group_leader);
  verdict.chosen_tgid = BPF_CORE_READ(chosen, tgid);
  if (bpf_map_update_elem(&verdicts, &thread, &verdict, BPF_ANY)) COUNT_FAILURE(verdict);
}

/* ---- where memory ran out ------------------------------------------------------------------- */

/* Pages that the kernel charges at a time (MEMCG_CHARGE_BATCH, 32 until 5.12). A counter closer to
 * its limit has refused the last charge. */
#define CHARGE_BATCH 64

/* False for PAGE_COUNTER_MAX, which means no limit: LONG_MAX / page size on 64 bits. */
static __always_inline int is_limit(unsigned long max) {
  return max < (~0UL >> 1 >> page_shift);
}

struct shortage {
  struct mem_cgroup* memcg; /* where the search starts */
  __u32 slack;              /* pages */
  __u32 is_v1;
  __u32 memsw; /* the limit on memory and swap was reached */
  __u32 found;
};

static __always_inline int at_limit(struct page_counter* counter, __u32 slack) {
  unsigned long max = BPF_CORE_READ(counter, max);
  long usage = BPF_CORE_READ(counter, usage.counter);

  return is_limit(max) && usage + slack >= (long)max;
}

static __always_inline struct page_counter* memsw_of(struct mem_cgroup* memcg) {
  return (void*)memcg + bpf_core_field_offset(struct mem_cgroup, memsw);
}

static __always_inline struct page_counter* memory_of(struct mem_cgroup* memcg) {
  return (void*)memcg + bpf_core_field_offset(struct mem_cgroup, memory);
}

/* try_charge_memcg() checks memsw first, if the hierarchy has it. */
static long find_limit(__u32 i, struct shortage* shortage) {
  struct mem_cgroup* memcg = shortage->memcg;

  if (!memcg) return 1;
  if (shortage->is_v1 && bpf_core_field_exists(memcg->memsw) &&
      at_limit(memsw_of(memcg), shortage->slack))
    shortage->memsw = 1;
  if (shortage->memsw || at_limit(memory_of(memcg), shortage->slack)) {
    shortage->found = 1;
    return 1;
  }
  shortage->memcg = memcg_parent(memcg);
  return 0;
}

/* In the address of a memcg that a global function returns. */
#define MARK 1ULL

static __always_inline struct mem_cgroup* unmarked(__u64 address) {
  return (void*)(address & ~MARK);
}

/* The first cgroup at its limit from `from` upwards, marked if that is the limit on memory and
 * swap; 0: none is. A global function, see approval.bpf.h. */
__noinline __u64 short_memcg(__u64 from, __u32 slack) {
  struct shortage shortage = {.memcg = (void*)from, .slack = slack};

  if (!from) return 0;
  /* Hierarchy 0 is cgroup2. */
  shortage.is_v1 = BPF_CORE_READ((struct mem_cgroup*)from, css.cgroup, root, hierarchy_id) != 0;
  bpf_loop(TREE_LEVELS, find_limit, &shortage, 0);
  return shortage.found ? (__u64)shortage.memcg | (shortage.memsw ? MARK : 0) : 0;
}

struct locked {
  struct mem_cgroup* at;
  __u64 top;
};

static __always_inline int is_locked(struct mem_cgroup* memcg) {
  _Bool locked = 0;

  if (!bpf_core_field_exists(memcg->oom_lock)) return 0;
  barrier_var(memcg);
  bpf_core_read(&locked, sizeof(locked), &memcg->oom_lock);
  return locked;
}

static long climb_locked(__u32 i, struct locked* climb) {
  if (!climb->at || !is_locked(climb->at)) return 1;
  climb->top = (__u64)climb->at;
  climb->at = memcg_parent(climb->at);
  return 0;
}

/* The highest cgroup of those from `from` upwards that mem_cgroup_oom_trylock() has locked. It
 * locks all cgroups of the domain while the OOM killer runs there. 0: none is. */
__noinline __u64 locked_memcg(__u64 from) {
  struct locked climb = {.at = (void*)from};

  bpf_loop(TREE_LEVELS, climb_locked, &climb, 0);
  return climb.top;
}

/* The cgroup whose limit caused an OOM kill for which a task of `from` allocates, as short_memcg()
 * returns it. Between the refused charge and the kill, usage may fall by what every CPU held in
 * reserve (drain_all_stock()): then a lock shows the domain, or, where the kernel has none, a
 * limit that is nearly reached. */
static __always_inline __u64 deduced_domain(__u64 from) {
  __u64 domain = short_memcg(from, CHARGE_BATCH);

  if (domain) return domain;
  if (bpf_core_field_exists(struct mem_cgroup, oom_lock)) return locked_memcg(from);
  return short_memcg(from, 4 * CHARGE_BATCH);
}

struct ascent {
  struct mem_cgroup* at;
  struct mem_cgroup* to; /* NULL: the root */
  struct mem_cgroup* group;
  __u32 arrived;
};

static long ascend(__u32 i, struct ascent* ascent) {
  struct mem_cgroup* at = ascent->at;

  if (!at) return 1;
  if (BPF_CORE_READ_BITFIELD_PROBED(at, oom_group)) ascent->group = at;
  if (at == ascent->to) {
    ascent->arrived = 1;
    return 1;
  }
  ascent->at = memcg_parent(at);
  return 0;
}

/* The highest cgroup from `from` to `to` with memory.oom.group (mem_cgroup_get_oom_group), or 0;
 * marked if `from` lies in `to`. A global function, see approval.bpf.h. */
__noinline __u64 group_up_to(__u64 from, __u64 to) {
  struct ascent ascent = {.at = (void*)from, .to = (void*)to};

  bpf_loop(TREE_LEVELS, ascend, &ascent, 0);
  return (__u64)ascent.group | (ascent.arrived || !to ? MARK : 0);
}

static __always_inline void describe_domain(struct abi_oom_kill* kill, struct mem_cgroup* domain,
                                            __u32 memsw) {
  struct page_counter* counter = memsw ? memsw_of(domain) : memory_of(domain);
  unsigned long max = BPF_CORE_READ(counter, max);

  kill->domain = memcg_id(domain);
  kill->domain_usage = (__u64)BPF_CORE_READ(counter, usage.counter) << page_shift;
  kill->domain_limit = is_limit(max) ? (__u64)max << page_shift : 0;
  if (memsw) kill->flags |= ABI_OOM_MEMSW;
  if (BPF_CORE_READ(domain, css.cgroup, root, hierarchy_id)) kill->flags |= ABI_OOM_DOMAIN_V1;
}

/* ---- the kill ------------------------------------------------------------------------------- */

static __always_inline void describe_killer(struct abi_oom_kill* kill) {
  struct task_struct* current = (void*)bpf_get_current_task();

  kill->killer_pid = BPF_CORE_READ(current, pid);
  kill->killer_tgid = BPF_CORE_READ(current, tgid);
  kill->killer_start_ns = BPF_CORE_READ(current, group_leader, start_boottime);
  BPF_CORE_READ_STR_INTO(&kill->killer_comm, current, comm);
}

/* mark_oom_victim() runs while the kernel holds a reference to the victim's mm. */
static __always_inline void describe_victim(struct abi_oom_kill* kill, struct task_struct* victim) {
  struct task_struct* leader = BPF_CORE_READ(victim, group_leader);
  struct mm_struct* mm = BPF_CORE_READ(victim, mm);

  describe(&kill->event, victim);
  if (!mm) return;
  kill->flags |= ABI_OOM_MEMORY;
  kill->start_ns = BPF_CORE_READ(leader, start_boottime);
  mm_counted(mm, kill->counted);
  kill->page_table_bytes = BPF_CORE_READ(mm, pgtables_bytes.counter);
}

/* From the saved struct oom_control, or deduced without one. */
static __always_inline void describe_cause(struct abi_oom_kill* kill, __u64 of_victim,
                                           __u64 victim) {
  __u32 thread = (__u32)bpf_get_current_pid_tgid();
  struct verdict* verdict = bpf_map_lookup_elem(&verdicts, &thread);
  __u64 of_killer = (__u64)memcg_of_task((void*)bpf_get_current_task());
  __u64 domain, group;

  if (verdict) {
    kill->flags |= ABI_OOM_EXACT;
    kill->constraint = verdict->constraint;
    kill->total_pages = verdict->total_pages;
    kill->chosen_tgid = verdict->chosen_tgid;
    if (verdict->chosen != victim) {
      kill->flags |= ABI_OOM_WITH_ANOTHER;
    } else if (verdict->points) {
      kill->flags |= ABI_OOM_POINTS;
      kill->points = verdict->points;
    }
    /* struct oom_control does not name the counter: memsw only if it is at its limit. */
    domain = short_memcg(verdict->memcg, CHARGE_BATCH);
    if ((__u64)unmarked(domain) != verdict->memcg) domain = verdict->memcg;
  } else {
    domain = deduced_domain(of_killer);
    if (!domain || (of_victim && !(group_up_to(of_victim, (__u64)unmarked(domain)) & MARK)))
      domain = deduced_domain(of_victim);
  }
  if (domain) describe_domain(kill, unmarked(domain), domain & MARK);
  if (!of_victim) return;
  group = group_up_to(of_victim, (__u64)unmarked(domain));
  if (group & MARK && unmarked(group)) kill->group = memcg_id(unmarked(group));
}

SEC("raw_tp/mark_victim")
int mark_victim(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_oom_kill* kill = record_begin(ABI_EVENT_oom_kill, sizeof(*kill));
  struct task_struct* victim = (void*)ctx->args[0];

  if (!kill) return 0;
  describe_killer(kill);
  if (mark_victim_passes_task) {
    describe_victim(kill, victim);
    describe_cause(kill, (__u64)memcg_of_task(victim), (__u64)BPF_CORE_READ(victim, group_leader));
  } else {
    kill->event.pid = kill->event.tgid = (__s32)ctx->args[0];
    describe_cause(kill, 0, 0);
  }
  event_end(&kill->event, ABI_EVENT_oom_kill);
  return 0;
}

SEC("raw_tp/oom_score_adj_update")
int oom_score_adj_update(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_event* event = event_begin(ABI_EVENT_oom_score_adj);

  if (!event) return 0;
  describe(event, (void*)ctx->args[0]);
  event_end(event, ABI_EVENT_oom_score_adj);
  return 0;
}

/* `memcg` is NULL when the whole node is out of memory. */
static __always_inline int last_call(struct mem_cgroup* memcg) {
  struct abi_event* event;

  if (!after_quiet(&last_call_ns, bpf_ktime_get_ns(), QUIET_NS)) {
    COUNT(quieted[ABI_EVENT_oom_last_call]);
    return 0;
  }
  event = event_begin(ABI_EVENT_oom_last_call);
  if (!event) return 0;
  event->cgroup = memcg ? memcg_id(memcg) : 0;
  event->pid = (__u32)bpf_get_current_pid_tgid();
  event->tgid = bpf_get_current_pid_tgid() >> 32;
  event_end(event, ABI_EVENT_oom_last_call);
  return 0;
}

static __always_inline int last_call_of(__u64 oom_control) {
  struct oom_control* oc = (void*)oom_control;

  return last_call(BPF_CORE_READ(oc, memcg));
}

SEC("fentry/mem_cgroup_out_of_memory")
int mem_cgroup_out_of_memory(void* ctx) {
  return last_call((void*)ARG(ctx, 0));
}

SEC("fentry/out_of_memory")
int out_of_memory(void* ctx) {
  __u32 thread = (__u32)bpf_get_current_pid_tgid();

  /* Left over from an earlier OOM: this one may mark a victim without choosing one. */
  bpf_map_delete_elem(&verdicts, &thread);
  return last_call_of(ARG(ctx, 0));
}

SEC("fentry/oom_kill_process")
int oom_kill_process(void* ctx) {
  __u64 oom_control = ARG(ctx, 0);

  keep_verdict((void*)oom_control);
  return last_call_of(oom_control);
}
