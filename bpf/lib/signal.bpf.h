/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends SIGKILL to a process that approval.bpf.h has just verified, by the function that this
 * kernel and this context permit.
 */
#ifndef FORESTALL_BPF_SIGNAL_BPF_H
#define FORESTALL_BPF_SIGNAL_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/lib/approval.bpf.h"

#define SIGKILL 9
#define EPERM 1
#define EAGAIN 11
#define EBUSY 16
#define EOPNOTSUPP 95

/* The thread to signal: the leader, or another thread if the leader has exited before its threads.
 * The kernel refuses a signal to an exiting thread. */
static __always_inline __s32 reached_through(struct task_struct* leader, __s32 tgid) {
  struct signal_struct* signal;
  __s32 tid = 0;

  if (!(BPF_CORE_READ(leader, flags) & PF_EXITING)) return tgid;
  signal = BPF_CORE_READ(leader, signal);
  if (signal) tid = tid_with_mm((__u64)signal);
  return tid ? tid : tgid;
}

/* The task with that id if it belongs to the victim's process, else NULL. The caller releases it.
 */
static __always_inline struct task_struct* thread_of(const struct abi_guard_victim* victim,
                                                     __s32 tid) {
  struct task_struct* task = bpf_task_from_pid(tid);

  if (!task) return 0;
  /* The id may have been reused since who_is() read it. */
  if (BPF_CORE_READ(task, tgid) == victim->tgid &&
      BPF_CORE_READ(task, group_leader, start_boottime) == victim->start_ns)
    return task;
  bpf_task_release(task);
  return 0;
}

/* Signals a process that is not the current one. 0: sent, or the process is gone. */
static __always_inline __s32 send_to_other(const struct abi_guard_victim* victim) {
  struct task_struct* task = thread_of(victim, victim->tgid);
  __s32 tid, code;

  if (!task) return 0;
  tid = reached_through(task, victim->tgid);
  if (tid != victim->tgid) {
    bpf_task_release(task);
    task = thread_of(victim, tid);
    if (!task) return -EAGAIN;
  }
  code = bpf_send_signal_task(task, SIGKILL, PIDTYPE_TGID, 0);
  bpf_task_release(task);
  return code;
}

/* Sends SIGKILL to the victim; *code is the result. Returns the enum abi_guard_way. */
static __always_inline __u32 send(const struct abi_guard_victim* victim, __s32* code) {
  *code = -EOPNOTSUPP;
  if (is_current(victim->tgid)) {
    *code = bpf_send_signal(SIGKILL);
    return ABI_GUARD_BY_CURRENT;
  }
  if (!can_signal_others()) return ABI_GUARD_BY_NONE;
  *code = send_to_other(victim);
  return ABI_GUARD_BY_TASK;
}

/* Whether the refusal depends on the sender's context, so that a retry may succeed. */
static __always_inline int may_go_later(__s32 code) {
  return code == -EPERM || code == -EBUSY || code == -EAGAIN || code == -EOPNOTSUPP;
}

#endif
