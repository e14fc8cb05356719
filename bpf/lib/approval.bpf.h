/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Verifies from the kernel's own structures, right before a signal is sent, that a process is still
 * the approved one. A pid may have been reused, and the process may have moved to another cgroup.
 *
 * A process belongs to the cgroup of its leader. It is spared if any of its threads is in a
 * protected cgroup, which cgroup v1 permits. userspace/actuators/members.h has the same rule.
 */
#ifndef FORESTALL_BPF_APPROVAL_BPF_H
#define FORESTALL_BPF_APPROVAL_BPF_H

#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/score.bpf.h"
#include "bpf/lib/turn.bpf.h"

extern int bpf_send_signal_task(struct task_struct* task, int signal, enum pid_type type,
                                __u64 value) __ksym __weak;
extern struct task_struct* bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct* task) __ksym __weak;

/* The agent itself is never signalled; set before loading. */
const volatile __s32 agent_tgid = 0;

enum victim_match {
  VICTIM_APPROVED,
  VICTIM_DYING,
  VICTIM_OTHER,
  VICTIM_UNKNOWN, /* more levels below the root than are read: not signalled, nor another instead */
};

/*
 * The verifier checks a global function once per program, and any other function once per path to
 * it, including callbacks. Without global functions the verifier of 7.2 reaches its limit.
 */

struct climb_to {
  struct mem_cgroup* at;
  __u64 cgroup;
  __u64 usage; /* bytes, where found */
  __u32 found;
};

static long climb_to(__u32 i, struct climb_to* climb) {
  if (!climb->at) return 1;
  if (memcg_id(climb->at) == climb->cgroup) {
    climb->usage = memcg_usage(climb->at);
    climb->found = 1;
    return 1;
  }
  climb->at = memcg_parent(climb->at);
  return 0;
}

static __always_inline struct climb_to climb_from(__u64 task, __u64 cgroup) {
  struct climb_to climb = {.at = memcg_of_task((void*)task), .cgroup = cgroup};

  bpf_loop(TREE_LEVELS, climb_to, &climb, 0);
  return climb;
}

/* Whether the memory cgroup of the task at that address is `cgroup` or a descendant; negative if
 * its group is too deep to decide. */
__noinline int lies_within(__u64 task, __u64 cgroup) {
  struct climb_to climb = climb_from(task, cgroup);

  return climb.found || !climb.at ? (int)climb.found : -1;
}

/* Usage of this memory cgroup in bytes if the task at that address is in its subtree; else 0. */
__noinline __u64 usage_around(__u64 task, __u64 cgroup) {
  return climb_from(task, cgroup).usage;
}

/* Cgroups of protected workloads, by kernfs id. 1: with their descendants. Only userspace writes.
 * Preallocated: before 6.1 a tracing program that uses another hash causes a kernel warning. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, __u64);
  __type(value, __u32);
} guard_protected SEC(".maps");

struct protected_climb {
  struct mem_cgroup* at; /* NULL: above the root, and none on the way was protected */
};

static long climb_to_protected(__u32 i, struct protected_climb* climb) {
  __u64 id;
  __u32* whole;

  if (!climb->at) return 1;
  id = memcg_id(climb->at);
  whole = bpf_map_lookup_elem(&guard_protected, &id);
  if (whole && (*whole || !i)) return 1;
  climb->at = memcg_parent(climb->at);
  return 0;
}

/* Whether the memory cgroup at that address is protected; also if it is too deep to decide. Inline:
 * the verifier permits eight frames, which the path from a timer to here uses up. */
static __always_inline int is_protected(__u64 memcg) {
  struct protected_climb climb = {.at = (void*)memcg};

  bpf_loop(TREE_LEVELS, climb_to_protected, &climb, 0);
  return climb.at != 0;
}

/* More threads are not read. */
#define APPROVAL_THREADS (1 << 15)

struct thread_check {
  __u64 head;  /* signal->thread_head */
  __u64 node;  /* thread_node of the next one */
  __u64 memcg; /* of the leader */
  __u32 found;
};

static long check_thread(__u32 i, struct thread_check* check) {
  __u64 node = check->node, memcg;

  if (!node || node == check->head) {
    check->node = 0;
    return 1;
  }
  memcg = (__u64)memcg_of_task(thread_of_node(node));
  if (memcg && memcg != check->memcg && is_protected(memcg)) {
    check->found = 1;
    return 1;
  }
  check->node = (__u64)BPF_CORE_READ((struct list_head*)node, next);
  return 0;
}

/* Whether a thread of the process is in a protected cgroup; negative: too many to read. */
__noinline int has_protected_thread(__u64 leader, __u64 signal) {
  __u64 head = signal + bpf_core_field_offset(struct signal_struct, thread_head);
  struct thread_check check = {
      .head = head,
      .node = (__u64)BPF_CORE_READ((struct list_head*)head, next),
      .memcg = (__u64)memcg_of_task((void*)leader),
  };

  if (check.memcg && is_protected(check.memcg)) return 1;
  bpf_loop(APPROVAL_THREADS, check_thread, &check, 0);
  if (check.found) return 1;
  return check.node ? -1 : 0;
}

/* Id of the first thread that has an mm; 0: none has. */
__noinline __s32 tid_with_mm(__u64 signal) {
  struct task_struct* thread = thread_with_mm((void*)signal);

  return thread ? BPF_CORE_READ(thread, pid) : 0;
}

/* Never signalled, even if a list contains it. */
static __always_inline int is_never_killed(struct task_struct* leader, __s32 tgid) {
  return tgid <= 1 || tgid == agent_tgid || is_agent(tgid) ||
         (BPF_CORE_READ(leader, flags) & PF_KTHREAD);
}

static __always_inline int can_signal_others(void) {
  return bpf_send_signal_task && bpf_task_from_pid && bpf_task_release;
}

static __always_inline int is_current(__s32 tgid) {
  return (__s32)(bpf_get_current_pid_tgid() >> 32) == tgid;
}

static __always_inline int compare(struct task_struct* leader, __s32 tgid, __u64 start_ns,
                                   __u64 cgroup) {
  struct signal_struct* signal;
  int within, threads;

  if (BPF_CORE_READ(leader, pid) != tgid || BPF_CORE_READ(leader, tgid) != tgid ||
      BPF_CORE_READ(leader, start_boottime) != start_ns || is_never_killed(leader, tgid))
    return VICTIM_OTHER;
  within = lies_within((__u64)leader, cgroup);
  if (within <= 0) return within ? VICTIM_UNKNOWN : VICTIM_OTHER;
  signal = BPF_CORE_READ(leader, signal);
  /* A zombie has given its memory back. */
  if (!signal || (BPF_CORE_READ(leader, exit_state) && only_thread(signal))) return VICTIM_OTHER;
  threads = has_protected_thread((__u64)leader, (__u64)signal);
  if (threads) return threads < 0 ? VICTIM_UNKNOWN : VICTIM_OTHER;
  if (BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT) return VICTIM_DYING;
  return BPF_CORE_READ(leader, mm) || tid_with_mm((__u64)signal) ? VICTIM_APPROVED : VICTIM_OTHER;
}

__noinline int who_is(__s32 tgid, __u64 start_ns, __u64 cgroup) {
  struct task_struct *current = (void*)bpf_get_current_task(), *task;
  __u64 leader = 0;
  int match = VICTIM_OTHER;

  if (is_current(tgid)) {
    leader = (__u64)BPF_CORE_READ(current, group_leader);
    return compare((void*)leader, tgid, start_ns, cgroup);
  }
  if (can_signal_others()) {
    task = bpf_task_from_pid(tgid);
    if (task) {
      /* As a number: the verifier does not accept the typed pointer as a global function's
       * argument.
       */
      bpf_probe_read_kernel(&leader, sizeof(leader), &task);
      match = compare((void*)leader, tgid, start_ns, cgroup);
      bpf_task_release(task);
    }
  }
  return match;
}

/* Current usage of the process' workload in bytes; 0: the process is gone or in another cgroup. */
__noinline __u64 usage_of_workload(__s32 tgid, __u64 cgroup) {
  struct task_struct *current = (void*)bpf_get_current_task(), *task;
  __u64 leader = 0, usage;

  if (is_current(tgid)) return usage_around((__u64)BPF_CORE_READ(current, group_leader), cgroup);
  if (!can_signal_others()) return 0;
  task = bpf_task_from_pid(tgid);
  if (!task) return 0;
  bpf_probe_read_kernel(&leader, sizeof(leader), &task);
  usage = usage_around(leader, cgroup);
  bpf_task_release(task);
  return usage;
}

#endif
