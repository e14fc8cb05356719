/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of every cgroup of a subtree in one pass: usage, file pages by the LRU lists,
 * anonymous and shared memory, number of processes. Or the processes of one cgroup.
 *
 * An iterator of cgroups would hold cgroup_mutex, which a mkdir in direct reclaim may hold for
 * long, and its output is limited to 32 KiB. So the pass runs as an iterator of a map, which holds
 * nothing but RCU, and walks the tree itself, as css_next_descendant_pre() does. Like the kernel's
 * own sums, it includes removed cgroups that still hold memory.
 *
 * The first read of an open iterator allocates 32 KiB in the kernel (kernel/bpf/bpf_iter.c
 * bpf_seq_read()), which may have to reclaim memory. So one iterator serves many passes: each read
 * of one byte ends after one element of the map.
 *
 * Nothing is flushed: usage is the page counter, and the sizes of the LRU lists are exact, while
 * memory.stat lags behind them. Counters are summed over CPUs.
 *
 * Lists of css_sets and tasks are not protected by RCU alone. If a node's predecessor is not the
 * previous node, the list changed and the count of processes is incomplete.
 */
#define RING_BYTES 4096

#include "bpf/abi/memcg.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/cpus.bpf.h"
#include "bpf/lib/file_pages.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/score.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Bounds on the steps over css_sets and tasks: for one cgroup, so that a tenant's threads cost the
 * counts of others nothing, and for one pass. */
#define PROCESS_STEPS 4096
#define PROCESS_STEPS_OF_PASS (1 << 17)

/* include/linux/cgroup-defs.h */
#define CSS_DYING (1 << 4)

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ABI_MEMCGS_MAX);
  __type(key, __u32);
  __type(value, struct abi_memcg);
} memcgs SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ABI_LISTED_MAX);
  __type(key, __u32);
  __type(value, struct abi_listed);
} listed SEC(".maps");

/* Only its number of elements counts: one run of the pass for each. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, ABI_MEMCG_RUNS);
  __type(key, __u32);
  __type(value, __u32);
} runs SEC(".maps");

/* ---- arguments and results: one run at a time ------------------------------------------------ */

/* Where a pass begins: addresses; begin_id 0: at the root of the hierarchy. */
__u64 begin_at;
__u64 root_at;
__u64 begin_id;

/* Whether to sum the counters over the CPUs, which costs a cache miss for each CPU and cgroup. */
__u32 counters_wanted;
/* Index of each counter in memcg_vmstats_percpu.state; below 0: unknown. */
__s32 stat_index[ABI_MEMCG_COUNTERS] = {-1, -1};
/* This CPU's part of the counters of the current task's memcg, for userspace to find the indices.
 */
__s64 own_states[ABI_MEMCG_STATES];

__u32 memcg_count;
__u32 memcgs_state; /* enum abi_memcgs_state */

/* kernfs id of a cgroup: the pass lists its processes, and those of its descendants, and reads no
 * memory. 0: it reads memory. */
__u64 list_of;
/* cgroup v1: threads can be in other memory cgroups than their leader, and cgroups be renamed. */
__u32 list_v1;
__u32 listed_count;
__u32 listed_all; /* no process of the cgroup is missing */

/* ---- setup ---------------------------------------------------------------------------------- */

/* Run once by userspace. Returns 0; 1: the root memcg was not found; 2: no node was found; 3: this
 * kernel has no LRU sizes that the pass can read. */
SEC("syscall")
int setup_memcgs(void* ctx) {
  struct mem_cgroup* root = root_memcg();

  if (!root) return 1;
  root_at = (__u64)root + bpf_core_field_offset(struct mem_cgroup, css);
  if (!find_nodes(root)) return 2;
  return bpf_core_field_exists(struct mem_cgroup_per_node, lru_zone_size) ||
                 bpf_core_field_exists(struct mem_cgroup_per_node___nested, lru_zone_size)
             ? 0
             : 3;
}

/* Run on one cgroup directory (order SELF_ONLY): the pass begins there. */
SEC("iter/cgroup")
int begin_at_cgroup(struct bpf_iter__cgroup* ctx) {
  __u64 address = (__u64)ctx->cgroup;
  struct mem_cgroup* memcg;

  if (!address) return 0;
  memcg = memcg_of_cgroup((void*)address);
  begin_id = memcg ? memcg_id(memcg) : 0;
  begin_at = begin_id ? (__u64)memcg + bpf_core_field_offset(struct mem_cgroup, css) : 0;
  return 0;
}

/* ---- counters ------------------------------------------------------------------------------- */

struct state_sum {
  __u64 counter; /* per-CPU address */
  __s64 sum;
};

static long add_state(__u32 i, struct state_sum* sum) {
  __s64 part = 0;

  bpf_probe_read_kernel(&part, sizeof(part),
                        (void*)(sum->counter + cpu_offsets[i & (MAX_CPUS - 1)]));
  sum->sum += part;
  return 0;
}

static __always_inline __u64 states_of(struct mem_cgroup* memcg) {
  if (!bpf_core_field_exists(memcg->vmstats_percpu) ||
      !bpf_core_field_exists(struct memcg_vmstats_percpu, state))
    return 0;
  barrier_var(memcg);
  return (__u64)BPF_CORE_READ(memcg, vmstats_percpu) +
         bpf_core_field_offset(struct memcg_vmstats_percpu, state);
}

/* One counter of one memcg. A global function, see approval.bpf.h. */
__noinline __s64 state_of(__u64 memcg, __u32 index) {
  __u64 states = states_of((void*)memcg);
  struct state_sum sum = {.counter = states + index * sizeof(long)};

  if (!states || index >= ABI_MEMCG_STATES) return 0;
  bpf_loop(cpu_count, add_state, &sum, 0);
  return sum.sum;
}

static long copy_own_state(__u32 i, __u64* states) {
  __u32 index = i & (ABI_MEMCG_STATES - 1);

  bpf_probe_read_kernel(&own_states[index], sizeof(own_states[index]),
                        (void*)(*states + index * sizeof(long)));
  return 0;
}

/* Number of counters that a memcg has; 0: unknown. Of this CPU only: between two calls on one CPU
 * without a task switch, only the caller changes them, whatever others in its memcg do elsewhere.
 */
SEC("syscall")
int read_own_states(void* ctx) {
  struct mem_cgroup* own = memcg_of_task((void*)bpf_get_current_task());
  __u64 states = own ? states_of(own) : 0;
  __u64 here = this_cpu_offset();
  __u32 count = 0;

  if (bpf_core_field_exists(struct memcg_vmstats_percpu, state))
    count = bpf_core_field_size(struct memcg_vmstats_percpu, state) / sizeof(long);
  if (!states || !here) return 0;
  states += here;
  if (count > ABI_MEMCG_STATES) count = ABI_MEMCG_STATES;
  bpf_loop(count, copy_own_state, &states, 0);
  return count;
}

/* ---- file pages ----------------------------------------------------------------------------- */

/* Copies of the arrays of one memcg and node: one read each. The mask of an index, which is within
 * the array anyway, proves that to the verifier of 6.1. */
#define SIZES 64
__u64 list_sizes[SIZES];
__u64 generation_sizes[SIZES];
_Static_assert(LRU_GENERATIONS* LRU_TYPES* ZONES_MAX <= SIZES, "the generations fit");

static __always_inline __u64 sane(__u64 pages) {
  return (__s64)pages > 0 ? pages : 0;
}

/* Returns 0; 1: a part is missing. */
static __always_inline int add_lists(__u64 info, struct abi_memcg* record) {
  __u64 lists = bpf_core_enum_value(enum lru_list, NR_LRU_LISTS);
  __u64 inactive = bpf_core_enum_value(enum lru_list, LRU_INACTIVE_FILE);
  __u64 active = bpf_core_enum_value(enum lru_list, LRU_ACTIVE_FILE);
  struct place sizes = {};

  PLACE_OF(sizes, info, lru_zone_size);
  if (!sizes.size || sizes.size > sizeof(list_sizes)) return 1;
  if (bpf_probe_read_kernel(list_sizes, sizes.size, (void*)sizes.address)) return 1;
  for (__u64 zone = 0; zone < ZONES_MAX; zone++) {
    if ((zone + 1) * lists * sizeof(long) > sizes.size) break;
    record->inactive_file += sane(list_sizes[(zone * lists + inactive) & (SIZES - 1)]);
    record->active_file += sane(list_sizes[(zone * lists + active) & (SIZES - 1)]);
  }
  return 0;
}

/* The two youngest generations are active, see file_in_generations(). Returns as add_lists().
 */
static __always_inline int add_generations(__u64 info, struct abi_memcg* record) {
  struct mem_cgroup_per_node* of = (void*)info;
  struct place sizes = {};
  __u64 zones, youngest = 0;

  if (!bpf_core_field_exists(of->lruvec.lrugen.max_seq)) return 0;
  PLACE_OF(sizes, info, lruvec.lrugen.nr_pages);
  barrier_var(of);
  if (!sizes.size || sizes.size > sizeof(generation_sizes)) return 1;
  if (bpf_probe_read_kernel(generation_sizes, sizes.size, (void*)sizes.address)) return 1;
  zones = sizes.size / (LRU_GENERATIONS * LRU_TYPES * sizeof(long));
  if (bpf_core_read(&youngest, sizeof(youngest), &of->lruvec.lrugen.max_seq)) return 1;
  for (__u64 age = 0; age < LRU_GENERATIONS; age++) {
    __u64 first = (((youngest - age) & (LRU_GENERATIONS - 1)) * LRU_TYPES + 1) * zones;
    __u64 pages = 0;

    for (__u64 zone = 0; zone < ZONES_MAX && zone < zones; zone++)
      pages += sane(generation_sizes[(first + zone) & (SIZES - 1)]);
    if (age < 2)
      record->active_file += pages;
    else
      record->inactive_file += pages;
  }
  return 0;
}

/* In pages. Returns as add_lists(). */
__noinline int add_file_pages(__u64 memcg, __u32 nid, struct abi_memcg* record) {
  __u64 info = 0;

  if (!record || nid >= NUMA_NODES || !node_pgdats[nid]) return 0;
  bpf_probe_read_kernel(
      &info, sizeof(info),
      (void*)memcg + bpf_core_field_offset(struct mem_cgroup, nodeinfo) + nid * sizeof(info));
  if (!info) return 1;
  return add_lists(info, record) | add_generations(info, record);
}

/* ---- processes ------------------------------------------------------------------------------ */

#define LIST_HEAD_BYTES bpf_core_type_size(struct list_head)

/* Position in the lists of one cgroup's css_sets. Global, because the verifier would follow each
 * combination of values on the stack. */
struct {
  __u64 head, at, before;             /* the list of tasks */
  __u64 set_head, set_at, set_before; /* the list of css_sets */
  __u64 set;
  __u32 which; /* of the set's lists */
  __u32 processes;
  __u32 complete;
} counting;

__u32 steps_left;

static __always_inline struct list_head links_at(__u64 node) {
  struct list_head links = {};

  bpf_probe_read_kernel(&links, sizeof(links), (void*)node);
  return links;
}

static __always_inline void begin_tasks(__u64 head) {
  counting.head = head;
  counting.before = head;
  counting.at = (__u64)links_at(head).next;
}

static __always_inline __u64 tasks_of_set(__u64 set, __u32 which) {
  if (which == 0) return set + bpf_core_field_offset(struct css_set, tasks);
  if (which == 1) return set + bpf_core_field_offset(struct css_set, mg_tasks);
  return set + bpf_core_field_offset(struct css_set, dying_tasks);
}

/* A walk over the threads of a process. Global as `counting` is. */
struct {
  __u64 head, at; /* signal->thread_head and thread_node addresses */
  __u64 signal;
  __u64 memcg; /* of the leader */
  __u32 apart;
} threads;

static long thread_step(__u32 i, void* unused) {
  struct task_struct* thread = thread_of_node(threads.at);

  if (threads.at == threads.head) {
    threads.apart = 0;
    return 1;
  }
  if (!threads.at || !steps_left) return 1;
  steps_left--;
  /* One that was removed from the list leads on to the others, or its memory was reused. */
  if ((__u64)BPF_CORE_READ(thread, signal) != threads.signal) return 1;
  if ((__u64)memcg_of_task(thread) != threads.memcg) return 1;
  threads.at = (__u64)links_at(threads.at).next;
  return 0;
}

/* Whether a thread of the process is in another memory cgroup than its leader, or may be. */
static __always_inline __u32 has_threads_apart(struct task_struct* leader) {
  struct signal_struct* signal = BPF_CORE_READ(leader, signal);

  if (!list_v1 || only_thread(signal)) return 0;
  threads.signal = (__u64)signal;
  threads.head = (__u64)signal + bpf_core_field_offset(struct signal_struct, thread_head);
  threads.at = (__u64)links_at(threads.head).next;
  threads.memcg = (__u64)memcg_of_task(leader);
  threads.apart = 1;
  bpf_loop(PROCESS_STEPS, thread_step, 0, 0);
  return threads.apart;
}

static __always_inline void list_process(struct task_struct* task) {
  __u32 key = listed_count;
  struct abi_listed* to = bpf_map_lookup_elem(&listed, &key);

  if (!to) {
    listed_all = 0;
    return;
  }
  to->start_ns = BPF_CORE_READ(task, start_boottime);
  to->pid = BPF_CORE_READ(task, tgid);
  to->apart = has_threads_apart(task);
  listed_count = key + 1;
}

/* css_task_iter_advance() with CSS_TASK_ITER_PROCS: leaders, and of those that exit the ones with
 * live threads. Which list has tasks that exit depends on the kernel. */
static __always_inline void count_task(__u64 node) {
  struct task_struct* task = (void*)node - bpf_core_field_offset(struct task_struct, cg_list);

  if (BPF_CORE_READ(task, group_leader) != task) return;
  if (BPF_CORE_READ(task, flags) & PF_EXITING && !BPF_CORE_READ(task, signal, live.counter)) {
    /* Its memory may not be free yet, and a kill has to wait for that. */
    if (list_of && !BPF_CORE_READ(task, exit_state)) list_process(task);
    return;
  }
  counting.processes++;
  if (list_of) list_process(task);
}

static long process_step(__u32 i, void* unused) {
  struct list_head links;

  if (!steps_left) return 1;
  steps_left--;
  if (counting.set && counting.at != counting.head) {
    links = links_at(counting.at);
    if ((__u64)links.prev != counting.before || !links.next) return 1;
    count_task(counting.at);
    counting.before = counting.at;
    counting.at = (__u64)links.next;
    return 0;
  }
  if (counting.set && ++counting.which < 3) {
    begin_tasks(tasks_of_set(counting.set, counting.which));
    return 0;
  }
  if (counting.set_at == counting.set_head) {
    counting.complete = 1;
    return 1;
  }
  links = links_at(counting.set_at);
  if ((__u64)links.prev != counting.set_before || !links.next) return 1;
  counting.set = counting.set_at - bpf_core_field_offset(struct css_set, e_cset_node) -
                 bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * LIST_HEAD_BYTES;
  counting.set_before = counting.set_at;
  counting.set_at = (__u64)links.next;
  counting.which = 0;
  begin_tasks(tasks_of_set(counting.set, 0));
  return 0;
}

__noinline int count_processes(__u64 cgroup, struct abi_memcg* record) {
  if (!record) return 0;
  counting.set_head = cgroup + bpf_core_field_offset(struct cgroup, e_csets) +
                      bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * LIST_HEAD_BYTES;
  counting.set_before = counting.set_head;
  counting.set_at = (__u64)links_at(counting.set_head).next;
  counting.set = 0;
  counting.processes = 0;
  counting.complete = 0;
  if (!counting.set_at) return 0;
  bpf_loop(PROCESS_STEPS, process_step, 0, 0);
  record->processes = counting.processes;
  if (counting.complete) record->flags |= ABI_MEMCG_PROCESSES;
  return 0;
}

/* ---- the pass ------------------------------------------------------------------------------- */

struct {
  __u64 root, at; /* cgroup_subsys_state addresses */
  __u32 level;
  __u32 climbing; /* `at` was recorded on the way down */
} pass;

static __always_inline void add_counter(__u64 memcg, struct abi_memcg* record, __u32 which) {
  __s32 index = stat_index[which];

  if (counters_wanted && index >= 0)
    record->counters[which] = state_of(memcg, index) * (1L << page_shift);
}

/* Records the cgroup at `pass.at`. Returns 1 if there is no room. */
__noinline int record_memcg(void) {
  struct cgroup_subsys_state* css = (void*)pass.at;
  struct mem_cgroup* memcg = memcg_of_css(css);
  __u32 key = memcg_count;
  struct abi_memcg* record = bpf_map_lookup_elem(&memcgs, &key);
  struct cgroup* cgroup;
  __u32 missing = 0;

  if (!record) return 1;
  __builtin_memset(record, 0, sizeof(*record));
  cgroup = BPF_CORE_READ(css, cgroup);
  record->cgroup = BPF_CORE_READ(cgroup, kn, id);
  record->usage = memcg_usage(memcg);
  record->level = pass.level;
  if (BPF_CORE_READ(css, flags) & CSS_DYING) record->flags |= ABI_MEMCG_REMOVED;
  for (__u32 nid = 0; nid < NUMA_NODES && nid < node_span; nid++)
    missing |= add_file_pages((__u64)memcg, nid, record);
  if (!missing) record->flags |= ABI_MEMCG_FILES;
  record->inactive_file <<= page_shift;
  record->active_file <<= page_shift;
  add_counter((__u64)memcg, record, ABI_MEMCG_ANON);
  add_counter((__u64)memcg, record, ABI_MEMCG_SHMEM);
  count_processes((__u64)cgroup, record);
  memcg_count = key + 1;
  return 0;
}

/* Of the cgroup whose processes are listed, and of those above it but the root, which has none. A
 * cgroup of v1 can be renamed. */
char list_names[ABI_NAMES_MAX][ABI_NAME_BYTES];
__u32 list_name_count; /* ABI_NAMES_MAX: there may be more */

static long read_name(__u32 i, __u64* at) {
  struct cgroup_subsys_state* css = (void*)*at;
  __u64 parent = (__u64)BPF_CORE_READ(css, parent);

  if (!parent) return 1;
  bpf_probe_read_kernel_str(list_names[i & (ABI_NAMES_MAX - 1)], ABI_NAME_BYTES,
                            BPF_CORE_READ(css, cgroup, kn, name));
  list_name_count = i + 1;
  *at = parent;
  return 0;
}

__noinline int read_names(void) {
  __u64 at = pass.at;

  list_name_count = 0;
  if (list_v1) bpf_loop(ABI_NAMES_MAX, read_name, &at, 0);
  return 0;
}

/* Where the cgroup is whose processes are listed: 1 + its level; 0: not found yet. */
__u32 list_depth;
struct abi_memcg list_record; /* of each cgroup in turn */

/* Lists the processes of the cgroup at `pass.at`. Returns 1 behind the last cgroup that counts. */
__noinline int list_memcg(void) {
  struct cgroup_subsys_state* css = (void*)pass.at;
  struct cgroup* cgroup = BPF_CORE_READ(css, cgroup);

  /* A dying one may have the id of its successor: a controller was turned off and on. */
  if (BPF_CORE_READ(cgroup, kn, id) == list_of && !(BPF_CORE_READ(css, flags) & CSS_DYING)) {
    list_depth = pass.level + 1;
    read_names();
  } else if (list_depth && pass.level < list_depth) {
    return 1;
  }
  if (!list_depth) return 0;
  list_record.flags = 0;
  count_processes((__u64)cgroup, &list_record);
  if (!(list_record.flags & ABI_MEMCG_PROCESSES)) listed_all = 0;
  return 0;
}

/* One step of css_next_descendant_pre() (kernel/cgroup/cgroup.c). */
static long pass_step(__u32 i, void* unused) {
  struct cgroup_subsys_state* css = (void*)pass.at;
  struct list_head* next;
  __u64 parent;

  if (!pass.climbing) {
    if (list_of) {
      if (list_memcg()) {
        memcgs_state = ABI_MEMCGS_DONE;
        return 1;
      }
    } else if (record_memcg()) {
      memcgs_state = ABI_MEMCGS_FULL;
      return 1;
    }
    next = BPF_CORE_READ(css, children.next);
    if (!next) return 1;
    if ((__u64)next != children_of(pass.at)) {
      pass.at = css_of_sibling(next);
      pass.level++;
      return 0;
    }
  }
  if (pass.at == pass.root) {
    memcgs_state = ABI_MEMCGS_DONE;
    return 1;
  }
  next = BPF_CORE_READ(css, sibling.next);
  parent = (__u64)BPF_CORE_READ(css, parent);
  if (!next || !parent) return 1;
  pass.climbing = (__u64)next == children_of(parent);
  pass.at = pass.climbing ? parent : css_of_sibling(next);
  if (pass.climbing) pass.level--;
  return 0;
}

/* The byte of output ends the read after this element. */
SEC("iter/bpf_map_elem")
int scan_memcgs(struct bpf_iter__bpf_map_elem* ctx) {
  __u8 over = 0;

  if (!ctx->value) return 0;
  bpf_seq_write(ctx->meta->seq, &over, sizeof(over));
  if (memcgs_state != ABI_MEMCGS_EMPTY) return 0;
  pass.root = begin_id ? begin_at : root_at;
  memcgs_state = ABI_MEMCGS_GONE;
  if (!pass.root) return 0;
  /* The address of a removed cgroup may have been reused. */
  if (begin_id && memcg_id(memcg_of_css((void*)pass.root)) != begin_id) return 0;
  memcgs_state = ABI_MEMCGS_TORN;
  if (!list_of) memcg_count = 0;
  listed_count = 0;
  listed_all = 1;
  list_depth = 0;
  list_name_count = 0;
  steps_left = PROCESS_STEPS_OF_PASS;
  pass.at = pass.root;
  pass.level = 0;
  pass.climbing = 0;
  bpf_loop(3 * ABI_MEMCGS_MAX, pass_step, 0, 0);
  return 0;
}
