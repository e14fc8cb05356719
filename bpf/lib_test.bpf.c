/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs the functions of bpf/lib by BPF_PROG_TEST_RUN for tests/kernel/bpf_lib_test.cc: one program
 * per function or small group. The globals below are the arguments and the results.
 */
#define RING_BYTES 4096

#include "bpf/abi/guard.h"
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/file_pages.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/psi.bpf.h"
#include "bpf/lib/reclaim.bpf.h"
#include "bpf/lib/signal.bpf.h"
#include "bpf/lib/watches.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Arguments. */
__u32 kind;
__u64 cgroup;
__u64 usage;
__u64 at_ns;
__u64 last_ns;
__u64 nested_flags; /* what psi_memstall_enter left behind */
__u32 readable;     /* whether psi_nested passes the address of nested_flags */
struct abi_guard_victim victim;

/* Results. */
__u64 id;
__u64 parent_id;
__u64 root_id;
__u64 null_sum; /* what a NULL memcg reads as */
__u64 bytes;
__u64 active_bytes;
__u64 free_bytes;
__u32 whole;
__s32 code;
__s64 counted[ABI_TASK_COUNTERS];
__u32 task_facts; /* enum task_fact */
struct abi_node_usage node_usage;

enum task_fact {
  TASK_ONLY_THREAD = 1 << 0,
  TASK_IN_VFORK = 1 << 1,
  TASK_WILL_FREE = 1 << 2,
  TASK_HAS_MM = 1 << 3,
  TASK_OOM_SKIP = 1 << 4,
};

/* 1: emitted; 0: the ring had no room for it. */
SEC("syscall")
int emit(void* ctx) {
  __u32 emitted_kind = kind;
  struct abi_event* event;

  if (emitted_kind >= ABI_EVENT_KIND_COUNT) return -1;
  event = event_begin(emitted_kind);
  if (!event) return 0;
  event->cgroup = cgroup;
  event_end(event, emitted_kind);
  return 1;
}

SEC("syscall")
int fire(void* ctx) {
  fire_if_crossed(1, cgroup, usage, ABI_EVENT_usage_timer);
  return 0;
}

/* Notes a reading of `cgroup` in slot 1, which began at `at_ns` and took one nanosecond. */
SEC("syscall")
int note(void* ctx) {
  struct abi_reading reading = {.begin_ns = at_ns, .end_ns = at_ns + 1, .usage = usage};

  note_reading(1, cgroup, &reading, whole);
  return 0;
}

SEC("syscall")
int quiet(void* ctx) {
  return after_quiet(&last_ns, at_ns, QUIET_NS);
}

/* Enters `cgroup` into slot 1 as usage.bpf.c does, with a made-up memcg address. */
SEC("syscall")
int watch_cgroup(void* ctx) {
  struct abi_relation relation = {.slot = 1, .watched = 1};
  __u64 key = cgroup, counter;
  __u32 slot = 1;
  struct subject* subject = bpf_map_lookup_elem(&subjects, &slot);

  if (!subject) return -1;
  set_subject(subject, 1 << 20, key);
  counter = subject->memcg + bpf_core_field_offset(struct mem_cgroup, memory);
  bpf_map_update_elem(&charged, &counter, &slot, BPF_ANY);
  return bpf_map_update_elem(&relations, &key, &relation, BPF_ANY);
}

/* Bits: 1 the relation, 2 the subject, 4 the counter of the charge hook is still there. */
SEC("syscall")
int forget(void* ctx) {
  __u64 key = cgroup, counter = (1 << 20) + bpf_core_field_offset(struct mem_cgroup, memory);
  struct subject* subject;
  __u32 slot = 1;
  int left = 0;

  forget_cgroup(key);
  subject = bpf_map_lookup_elem(&subjects, &slot);
  if (bpf_map_lookup_elem(&relations, &key)) left |= 1;
  if (subject && subject->memcg) left |= 2;
  if (bpf_map_lookup_elem(&charged, &counter)) left |= 4;
  return left;
}

SEC("syscall")
int memcg(void* ctx) {
  struct mem_cgroup* own = memcg_of_task((void*)bpf_get_current_task());

  id = memcg_id(own);
  parent_id = memcg_id(memcg_parent(own));
  root_id = memcg_id(root_memcg());
  bytes = memcg_usage(own);
  null_sum = memcg_id(0) + memcg_usage(0) + (__u64)memcg_parent(0);
  return 0;
}

/* Whether the nodes were found. */
SEC("syscall")
int node(void* ctx) {
  struct mem_cgroup* root = root_memcg();
  struct abi_node_usage sum;
  __u32 complete = 0;

  if (!find_nodes(root)) return 0;
  read_node(&sum);
  node_usage = sum;
  free_bytes = walk_zones(any_pgdat);
  active_bytes = subtree_file(root, 1, &complete);
  bytes = subtree_file(root, 0, &complete);
  whole = complete;
  return 1;
}

SEC("syscall")
int inactive_of_null(void* ctx) {
  __u32 complete = 1;

  bytes = subtree_file(0, 0, &complete);
  whole = complete;
  return file_on_node(0, 0, 0) == 0 && file_on_node(0, NUMA_NODES, 1) == 0;
}

SEC("syscall")
int score(void* ctx) {
  struct task_struct* task = (void*)bpf_get_current_task();
  struct signal_struct* signal = BPF_CORE_READ(task, signal);
  struct mm_struct* mm = BPF_CORE_READ(task, mm);
  __s64 pages[ABI_TASK_COUNTERS] = {};

  mm_counted(mm, pages);
  for (int i = 0; i < ABI_TASK_COUNTERS; i++) counted[i] = pages[i];
  task_facts = (only_thread(signal) ? TASK_ONLY_THREAD : 0) |
               (in_vfork(task, mm) ? TASK_IN_VFORK : 0) |
               (will_free_mem(BPF_CORE_READ(task, flags), signal, mm) ? TASK_WILL_FREE : 0) |
               (thread_with_mm(signal) ? TASK_HAS_MM : 0) | (mm_oom_skip(mm) ? TASK_OOM_SKIP : 0);
  return positive(-5) == 0 && positive(0) == 0 && positive(5) == 5;
}

/* Completes `victim` from its pid: start time and memory cgroup. */
SEC("syscall")
int identify(void* ctx) {
  struct task_struct* task;

  if (!can_signal_others()) return -1;
  task = bpf_task_from_pid(victim.tgid);
  if (!task) return 0;
  victim.start_ns = BPF_CORE_READ(task, start_boottime);
  victim.cgroup = memcg_id(memcg_of_task(task));
  bpf_task_release(task);
  return 1;
}

SEC("syscall")
int approve(void* ctx) {
  bytes = usage_of_workload(victim.tgid, victim.cgroup);
  return who_is(victim.tgid, victim.start_ns, victim.cgroup);
}

/* The way that the signal went. */
SEC("syscall")
int kill_victim(void* ctx) {
  struct abi_guard_victim copy = victim;
  __s32 result = 0;
  int way = send(&copy, &result);

  code = result;
  return way;
}

SEC("syscall")
int retries(void* ctx) {
  return may_go_later(code);
}

SEC("syscall")
int psi_nested(void* ctx) {
  __u64 address = 0;
  void* flags = &nested_flags;

  /* As a number, as a tracepoint or fentry passes it. */
  if (readable) bpf_probe_read_kernel(&address, sizeof(address), &flags);
  return psi_stall_nested(address);
}

/* Whose limit mm_vmscan_memcg_reclaim_begin means for the current task: 1 its own cgroup, 2 the one
 * that the tracepoint passes, 0 another. */
SEC("syscall")
int reclaimed(void* ctx) {
  struct mem_cgroup* own = memcg_of_task((void*)bpf_get_current_task());
  struct mem_cgroup* passed = memcg_parent(own);
  __u64 arguments[3] = {0, 0, (__u64)passed};
  struct mem_cgroup* found = reclaimed_memcg((void*)arguments, own);

  id = memcg_id(found);
  return found == own ? 1 : found == passed ? 2 : 0;
}
