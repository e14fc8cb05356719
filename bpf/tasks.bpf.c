/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The input for the prediction of the kernel's OOM victim.
 *
 * `scan` walks all tasks and writes one struct abi_task for each process: the facts that
 * oom_badness() and oom_evaluate_task() use, and the points. `walk` records the order in which the
 * kernel walks the processes of one memory cgroup, or of the node. That order decides between equal
 * points.
 *
 * The large steps are global functions, which the verifier checks once each. As one function they
 * exceed the limit of 7.2's verifier.
 *
 * The programs take no lock. Where the kernel holds task_lock, they check twice: the counters of an
 * mm are valid only if the task still has that mm afterwards, because its memory may have been
 * reused. Lists are walked under RCU, which the iterator holds.
 */
#include "bpf/abi/task.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/cpus.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/score.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- arguments: userspace sets them before a run, one run at a time -------------------------- */

/* Id of the memory cgroup whose subtree is scanned; 0: the node. */
__u64 wanted_cgroup;
/* Points per unit of oom_score_adj: totalpages / 1000. */
__s64 pages_per_adj;
/* Whether to fill `summed` if possible, and whether the kernel scores by it. */
__u32 sums_wanted;
__u32 score_by_sum;

/* Obscures the address in memory_id, which then shows equality only. */
const volatile __u64 address_mask = 0;

/* The machine has only node 0, so no task is bound to another one. */
const volatile __u8 one_node = 0;

/* ---- the CPUs' parts of a counter ----------------------------------------------------------- */

struct cpu_sum {
  __u64 counters[ABI_TASK_COUNTERS]; /* the per-CPU pointers */
  __s64 pages[ABI_TASK_COUNTERS];
  __u64 apart; /* 0: the four are adjacent (since 6.6), and one read covers them */
};

static long add_cpu(__u32 i, struct cpu_sum* sum) {
  __s32 parts[ABI_TASK_COUNTERS] = {};
  __u64 offset = cpu_offsets[i & (MAX_CPUS - 1)];

  if (!sum->apart) {
    bpf_probe_read_kernel(parts, sizeof(parts), (void*)(sum->counters[0] + offset));
  } else {
    for (int k = 0; k < ABI_TASK_COUNTERS; k++)
      bpf_probe_read_kernel(&parts[k], sizeof(parts[k]), (void*)(sum->counters[k] + offset));
  }
  for (int k = 0; k < ABI_TASK_COUNTERS; k++) sum->pages[k] += parts[k];
  return 0;
}

/* percpu_counter_sum_positive() of all four counters. */
__noinline int sum_counters(__u64 address, struct abi_task* record) {
  struct mm_struct* mm = (void*)address;
  struct cpu_sum sum = {};

  /* The verifier checks this function even if it is never called. */
  if (!record || rss_is_atomic()) return 0;
  barrier_var(mm);
  for (int k = 0; k < ABI_TASK_COUNTERS; k++) {
    struct percpu_counter* counter = rss_counter(mm, k);

    sum.pages[k] = BPF_CORE_READ(counter, count);
    sum.counters[k] = (__u64)BPF_CORE_READ(counter, counters);
    sum.apart |= sum.counters[k] ^ (sum.counters[0] + k * sizeof(__s32));
  }
  bpf_loop(cpu_count, add_cpu, &sum, 0);
  for (int k = 0; k < ABI_TASK_COUNTERS; k++) record->summed[k] = positive(sum.pages[k]);
  return 0;
}

/* ---- membership of the subtree -------------------------------------------------------------- */

/* Result for the previous process: consecutive processes often share a cgroup. */
__u64 last_cgroup;
__u32 last_is_wanted;

/* Bound on the levels between a cgroup and wanted_cgroup. */
#define MAX_DEPTH 4096

struct climb {
  struct mem_cgroup* memcg;
  __u32 found;
};

static long climb_to_wanted(__u32 i, struct climb* climb) {
  if (!climb->memcg) return 1;
  if (memcg_id(climb->memcg) == wanted_cgroup) {
    climb->found = 1;
    return 1;
  }
  climb->memcg = memcg_parent(climb->memcg);
  return 0;
}

static __always_inline int is_wanted(struct mem_cgroup* memcg, __u64 id) {
  struct climb climb = {.memcg = memcg};

  if (!wanted_cgroup) return 1;
  if (id != last_cgroup) {
    bpf_loop(MAX_DEPTH, climb_to_wanted, &climb, 0);
    last_is_wanted = climb.found;
    last_cgroup = id;
  }
  return last_is_wanted;
}

/* ---- the nodes it may use ------------------------------------------------------------------- */

/* include/uapi/linux/mempolicy.h */
#define MPOL_BIND 2

struct node_union {
  __u64 head, node; /* as in thread_search */
  __u64 allowed, bound;
};

static __always_inline void add_nodes(struct task_struct* task, struct node_union* nodes) {
  struct mempolicy* policy = 0;
  __u64 bound = ~0ULL;

  if (bpf_core_field_exists(task->mems_allowed))
    nodes->allowed |= BPF_CORE_READ(task, mems_allowed.bits[0]);
  else
    nodes->allowed = ~0ULL;
  if (bpf_core_field_exists(task->mempolicy)) policy = BPF_CORE_READ(task, mempolicy);
  if (policy && BPF_CORE_READ(policy, mode) == MPOL_BIND) {
    bound = BPF_CORE_READ(policy, nodes.bits[0]);
    /* The policy was replaced during the read, so the value is invalid. */
    if (BPF_CORE_READ(task, mempolicy) != policy) bound = ~0ULL;
  }
  nodes->bound |= bound;
}

static long add_thread_nodes(__u32 i, struct node_union* nodes) {
  struct list_head* node = (void*)nodes->node;

  if (!node || nodes->node == nodes->head) return 1;
  add_nodes(thread_of_node(nodes->node), nodes);
  nodes->node = (__u64)BPF_CORE_READ(node, next);
  return 0;
}

/* The union over all threads of what oom_cpuset_eligible() checks. */
__noinline int describe_nodes(__u64 leader, __u64 signal_address, struct abi_task* record) {
  struct signal_struct* signal = (void*)signal_address;
  struct list_head* head = (void*)signal + bpf_core_field_offset(struct signal_struct, thread_head);
  struct node_union nodes = {.head = (__u64)head};

  if (!record) return 0;
  add_nodes((void*)leader, &nodes);
  if (!only_thread(signal)) {
    nodes.node = (__u64)BPF_CORE_READ(head, next);
    bpf_loop(MAX_THREADS, add_thread_nodes, &nodes, 0);
  }
  record->nodes_allowed = nodes.allowed;
  record->nodes_bound = nodes.bound;
  return 0;
}

/* ---- the record ----------------------------------------------------------------------------- */

/* Reads of a process whose mm changes during the read. */
#define MM_TRIES 4

/* Odd, so a multiplication by it keeps unequal addresses unequal. */
#define SPREAD 0x9e3779b97f4a7c15ULL

/* The facts about the mm that oom_badness() and task_will_free_mem() use. */
static __always_inline __u32 memory_flags(struct task_struct* task, __u32 task_flags,
                                          struct signal_struct* signal, struct mm_struct* mm,
                                          int stands_in) {
  __u32 flags = 0;

  if (mm_oom_skip(mm)) flags |= ABI_TASK_REAPED;
  if (in_vfork(task, mm)) flags |= ABI_TASK_IN_VFORK;
  if (stands_in) return flags | ABI_TASK_THREAD | ABI_TASK_STANDS_IN;
  if (will_free_mem(task_flags, signal, mm)) flags |= ABI_TASK_DYING;
  return flags;
}

enum { MM_READ, MM_NONE, MM_CHANGED };

/* find_lock_task_mm(), and all fields of the record that depend on the mm. MM_CHANGED: the task got
 * another mm during the read. */
__noinline int read_memory(__u64 leader, __u32 leader_flags, __u64 signal_address,
                           struct abi_task* record) {
  struct signal_struct* signal = (void*)signal_address;
  struct task_struct* task = (void*)leader;
  struct mm_struct* mm = BPF_CORE_READ(task, mm);
  __u32 flags = 0;
  int stands_in = 0;

  if (!record) return MM_NONE;
  if (!mm) {
    task = thread_with_mm(signal);
    if (!task) return MM_NONE;
    mm = BPF_CORE_READ(task, mm);
    if (!mm) return MM_CHANGED;
    record->pid = BPF_CORE_READ(task, pid);
    stands_in = 1;
  }
  mm_counted(mm, record->counted);
  if (rss_is_atomic()) {
    __builtin_memcpy(record->summed, record->counted, sizeof(record->summed));
    flags = ABI_TASK_ATOMIC;
  } else if (sums_wanted) {
    sum_counters((__u64)mm, record);
  } else {
    flags = ABI_TASK_NO_SUM;
  }
  record->page_table_bytes = BPF_CORE_READ(mm, pgtables_bytes.counter);
  record->memory_id = ((__u64)mm ^ address_mask) * SPREAD;
  flags |= memory_flags(task, leader_flags, signal, mm, stands_in);
  if (BPF_CORE_READ(task, mm) != mm) return MM_CHANGED;
  record->flags |= flags;
  return MM_READ;
}

static __always_inline void describe_memory(struct task_struct* leader, __u32 leader_flags,
                                            struct signal_struct* signal, struct abi_task* record) {
  for (int try = 0; try < MM_TRIES; try++) {
    int found = read_memory((__u64)leader, leader_flags, (__u64)signal, record);

    if (found == MM_READ) return;
    if (found == MM_NONE) break;
  }
  record->pid = record->tgid;
  record->memory_id = 0;
  record->page_table_bytes = 0;
  __builtin_memset(record->counted, 0, sizeof(record->counted));
  __builtin_memset(record->summed, 0, sizeof(record->summed));
  record->flags |= ABI_TASK_NO_MEMORY;
}

/* oom_badness(). */
static __always_inline __s64 badness(const struct abi_task* record) {
  const __s64* pages =
      score_by_sum && !(record->flags & ABI_TASK_NO_SUM) ? record->summed : record->counted;
  __s64 points = record->page_table_bytes >> page_shift;

  if (record->flags & (ABI_TASK_INIT | ABI_TASK_NO_MEMORY | ABI_TASK_REAPED | ABI_TASK_IN_VFORK) ||
      record->oom_score_adj == ABI_TASK_ADJ_NEVER)
    return ABI_TASK_UNKILLABLE;
  for (int k = 0; k < ABI_TASK_COUNTERS; k++) points += pages[k];
  return points + record->oom_score_adj * pages_per_adj;
}

static __always_inline void describe_victim(struct signal_struct* signal, struct abi_task* record) {
  struct mm_struct* oom_mm = BPF_CORE_READ(signal, oom_mm);

  if (BPF_CORE_READ_BITFIELD_PROBED(signal, oom_flag_origin)) record->flags |= ABI_TASK_OOM_ORIGIN;
  if (!oom_mm) return;
  record->flags |= ABI_TASK_OOM_VICTIM;
  if (mm_oom_skip(oom_mm)) record->flags |= ABI_TASK_VICTIM_REAPED;
}

SEC("iter/task")
int scan(struct bpf_iter__task* ctx) {
  struct seq_file* seq = ctx->meta->seq;
  __u64 address = (__u64)ctx->task;
  struct task_struct* task = (void*)address;
  struct abi_task record = {};
  struct signal_struct* signal;
  struct mem_cgroup* memcg;
  __u32 flags;

  if (!address) return 0;
  record.pid = BPF_CORE_READ(task, pid);
  record.tgid = BPF_CORE_READ(task, tgid);
  /* Only leaders of user processes pass: no other threads, no kernel threads. */
  if (record.pid != record.tgid) return 0;
  flags = BPF_CORE_READ(task, flags);
  if (flags & PF_KTHREAD) return 0;
  as_number = address;
  task = (void*)as_number;
  memcg = memcg_of_task(task);
  record.cgroup = memcg ? memcg_id(memcg) : 0;
  if (!is_wanted(memcg, record.cgroup)) return 0;

  signal = BPF_CORE_READ(task, signal);
  if (!signal) return 0;
  record.start_ns = BPF_CORE_READ(task, start_boottime);
  record.uid = BPF_CORE_READ(task, real_cred, uid.val);
  record.oom_score_adj = BPF_CORE_READ(signal, oom_score_adj);
  BPF_CORE_READ_INTO(&record.comm, task, comm);
  if (record.tgid == 1) record.flags |= ABI_TASK_INIT;
  describe_memory(task, flags, signal, &record);
  describe_victim(signal, &record);
  record.nodes_allowed = 1;
  record.nodes_bound = ~0ULL;
  if (!one_node) describe_nodes((__u64)task, (__u64)signal, &record);
  record.points = badness(&record);
  /* If the record does not fit, the kernel discards it and runs the program again with more room.
   */
  bpf_seq_write(seq, &record, sizeof(record));
  return 0;
}

/* ---- the kernel's order --------------------------------------------------------------------- */

/* Result of walk: process ids in the kernel's order, and the state. Userspace clears them. */
__s32 walked[ABI_WALK_MAX];
__u32 walked_count;
__u32 walk_state; /* enum abi_walk_state */

/* The size in the running kernel, for the index into an array. */
#define LIST_HEAD_BYTES bpf_core_type_size(struct list_head)

/* Bound on the steps of one walk: tasks and lists. */
#define MAX_STEPS (1 << 22)

static __always_inline struct list_head next_of(__u64 node) {
  struct list_head links = {};

  bpf_probe_read_kernel(&links, sizeof(links), (void*)node);
  return links;
}

/* The walk also visits kernel threads, which the OOM killer never chooses. */
static __always_inline void note_walked(struct task_struct* task) {
  __s32 pid = BPF_CORE_READ(task, pid);
  __u32 at = walked_count;

  if (pid != BPF_CORE_READ(task, tgid) || BPF_CORE_READ(task, flags) & PF_KTHREAD) return;
  if (at >= ABI_WALK_MAX) {
    walk_state = ABI_WALK_FULL;
    return;
  }
  walked[at] = pid;
  walked_count = at + 1;
}

/* Position of the walk, which goes through each list from its head back to its head. If a node's
 * predecessor is not the previous node, the list changed and the walk is torn. The state is global
 * and not on the stack, where the verifier would follow each combination of values. */
struct {
  __u64 head, at, before;
  __u64 set;      /* css_set; 0: before the first one. Unused by the walk of the node. */
  __u64 set_node; /* its node in the cgroup's list of sets */
  __u64 set_head;
  __u32 which; /* of the set's lists */
  __u32 seeking;
} going;

static __always_inline void begin_list(__u64 head) {
  going.head = head;
  going.before = head;
  going.at = (__u64)next_of(head).next;
}

/* Advances by one node; 1: the walk is torn. */
static __always_inline int next_node(void) {
  struct list_head links = next_of(going.at);

  if ((__u64)links.prev != going.before || !links.next) {
    walk_state = ABI_WALK_TORN;
    return 1;
  }
  going.before = going.at;
  going.at = (__u64)links.next;
  return 0;
}

static __always_inline __u64 list_of_set(__u64 set, __u32 which) {
  if (which == 0) return set + bpf_core_field_offset(struct css_set, tasks);
  if (which == 1) return set + bpf_core_field_offset(struct css_set, mg_tasks);
  return set + bpf_core_field_offset(struct css_set, dying_tasks);
}

/* css_task_iter_advance(): the lists of one css_set, then those of the next. */
static long walk_cgroup_step(__u32 i, void* unused) {
  __u64 place = bpf_core_field_offset(struct css_set, e_cset_node) +
                bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * LIST_HEAD_BYTES;
  __u64 node = going.at;

  if (going.set && node != going.head) {
    if (next_node()) return 1;
    note_walked((void*)node - bpf_core_field_offset(struct task_struct, cg_list));
    return walk_state != ABI_WALK_RUNNING;
  }
  if (going.set && ++going.which < 3) {
    begin_list(list_of_set(going.set, going.which));
    return 0;
  }
  going.set_node = (__u64)next_of(going.set_node).next;
  if (!going.set_node || going.set_node == going.set_head) {
    walk_state = going.set_node ? ABI_WALK_DONE : ABI_WALK_TORN;
    return 1;
  }
  going.set = going.set_node - place;
  going.which = 0;
  begin_list(list_of_set(going.set, 0));
  return 0;
}

/* css_task_iter_start() for the memory controller. */
static __always_inline void walk_cgroup(struct mem_cgroup* memcg) {
  going.set_head = (__u64)BPF_CORE_READ(memcg, css.cgroup) +
                   bpf_core_field_offset(struct cgroup, e_csets) +
                   bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * LIST_HEAD_BYTES;
  going.set_node = going.set_head;
  going.set = 0;
  bpf_loop(MAX_STEPS, walk_cgroup_step, 0, 0);
}

/* for_each_process(): starts at init_task, which has pid 0 and does not count. Its address is not
 * exported, so the walk first seeks it from any process. */
static long walk_node_step(__u32 i, void* unused) {
  __u64 node = going.at;
  struct task_struct* task = (void*)node - bpf_core_field_offset(struct task_struct, tasks);

  if (going.seeking) {
    if (BPF_CORE_READ(task, pid)) return next_node();
    going.seeking = 0;
    begin_list(node);
    return 0;
  }
  if (node == going.head) {
    walk_state = ABI_WALK_DONE;
    return 1;
  }
  if (next_node()) return 1;
  note_walked(task);
  return walk_state != ABI_WALK_RUNNING;
}

static __always_inline void walk_node(struct task_struct* leader) {
  going.seeking = 1;
  begin_list((__u64)leader + bpf_core_field_offset(struct task_struct, tasks));
  bpf_loop(MAX_STEPS, walk_node_step, 0, 0);
}

/* Walks once, from the first process found in the cgroup. */
SEC("iter/task")
int walk(struct bpf_iter__task* ctx) {
  __u64 address = (__u64)ctx->task;
  struct task_struct* task = (void*)address;
  struct mem_cgroup* memcg;

  if (!address || walk_state != ABI_WALK_EMPTY) return 0;
  memcg = memcg_of_task(task);
  if (wanted_cgroup && (!memcg || memcg_id(memcg) != wanted_cgroup)) return 0;
  walk_state = ABI_WALK_RUNNING;
  if (wanted_cgroup)
    walk_cgroup(memcg);
  else
    walk_node(BPF_CORE_READ(task, group_leader));
  return 0;
}
