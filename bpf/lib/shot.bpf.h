/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The shot itself: SIGKILL to a process that approval.bpf.h has just found to be the victim, by
 * whichever way this kernel and this context permit.
 */
#ifndef FORESTALL_BPF_SHOT_BPF_H
#define FORESTALL_BPF_SHOT_BPF_H

#include "bpf/abi/guard.h"
#include "bpf/lib/approval.bpf.h"

#define SIGKILL 9
#define EPERM 1
#define EAGAIN 11
#define EBUSY 16
#define EOPNOTSUPP 95

/* Through which thread the process is reached, since the kernel takes no signal for one that is
 * exiting: the leader, or, where that has ended before its threads, one of those. */
static __always_inline __s32 reached_through(struct task_struct* leader, __s32 tgid) {
  struct signal_struct* signal;
  __s32 tid = 0;

  if (!(BPF_CORE_READ(leader, flags) & PF_EXITING)) return tgid;
  signal = BPF_CORE_READ(leader, signal);
  if (signal) tid = tid_with_mm((__u64)signal);
  return tid ? tid : tgid;
}

/* The task of that id, if it is of the victim's process; else NULL. The caller releases it. */
static __always_inline struct task_struct* thread_of(const struct abi_guard_victim* victim,
                                                     __s32 tid) {
  struct task_struct* task = bpf_task_from_pid(tid);

  if (!task) return 0;
  /* The id may be another's since who_is() asked. */
  if (BPF_CORE_READ(task, tgid) == victim->tgid &&
      BPF_CORE_READ(task, group_leader, start_boottime) == victim->start_ns)
    return task;
  bpf_task_release(task);
  return 0;
}

/* To a process that is not the running one. 0: done, or it is gone, which is as good. */
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

/* SIGKILL to who was just found to be the victim; `code` says how it went. */
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

/* Refusals that depend on where it was sent from. */
static __always_inline int may_go_later(__s32 code) {
  return code == -EPERM || code == -EBUSY || code == -EAGAIN || code == -EOPNOTSUPP;
}

#endif
