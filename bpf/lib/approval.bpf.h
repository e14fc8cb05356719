/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Verifies from the kernel's own structures, right before a signal is sent, that a process is still
 * the approved one. A pid may have been reused, and the process may have moved to another cgroup.
 */
#ifndef FORESTALL_BPF_APPROVAL_BPF_H
#define FORESTALL_BPF_APPROVAL_BPF_H

#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/score.bpf.h"

extern int bpf_send_signal_task(struct task_struct* task, int signal, enum pid_type type,
                                __u64 value) __ksym __weak;
extern struct task_struct* bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct* task) __ksym __weak;

/* The agent itself is never signalled; set before loading. */
const volatile __s32 agent_tgid = 0;

enum who { WHO_APPROVED, WHO_DYING, WHO_OTHER };

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

/* Whether the memory cgroup of the task at that address is `cgroup` or a descendant. */
__noinline int lies_within(__u64 task, __u64 cgroup) {
  return climb_from(task, cgroup).found;
}

/* Usage of this memory cgroup in bytes if the task at that address is in its subtree; else 0. */
__noinline __u64 usage_around(__u64 task, __u64 cgroup) {
  return climb_from(task, cgroup).usage;
}

/* Id of the first thread that has an mm; 0: none has. */
__noinline __s32 tid_with_mm(__u64 signal) {
  struct task_struct* thread = thread_with_mm((void*)signal);

  return thread ? BPF_CORE_READ(thread, pid) : 0;
}

/* Never signalled, even if a list contains it. */
static __always_inline int is_untouchable(struct task_struct* leader, __s32 tgid) {
  return tgid <= 1 || tgid == agent_tgid || (BPF_CORE_READ(leader, flags) & PF_KTHREAD);
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

  if (BPF_CORE_READ(leader, pid) != tgid || BPF_CORE_READ(leader, tgid) != tgid ||
      BPF_CORE_READ(leader, start_boottime) != start_ns || is_untouchable(leader, tgid) ||
      !lies_within((__u64)leader, cgroup))
    return WHO_OTHER;
  signal = BPF_CORE_READ(leader, signal);
  /* A zombie has given its memory back. */
  if (!signal || (BPF_CORE_READ(leader, exit_state) && only_thread(signal))) return WHO_OTHER;
  if (BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT) return WHO_DYING;
  return BPF_CORE_READ(leader, mm) || tid_with_mm((__u64)signal) ? WHO_APPROVED : WHO_OTHER;
}

__noinline int who_is(__s32 tgid, __u64 start_ns, __u64 cgroup) {
  struct task_struct *current = (void*)bpf_get_current_task(), *task;
  __u64 leader = 0;
  int who = WHO_OTHER;

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
      who = compare((void*)leader, tgid, start_ns, cgroup);
      bpf_task_release(task);
    }
  }
  return who;
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
