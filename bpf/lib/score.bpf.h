/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The facts about one process that the OOM killer uses (mm/oom_kill.c). Addresses are numbers, and
 * only bpf_probe_read_kernel follows them. The scan (tasks.bpf.c) and the record of a kill
 * (oom.bpf.c) share this file, so their figures agree.
 */
#ifndef FORESTALL_BPF_SCORE_BPF_H
#define FORESTALL_BPF_SCORE_BPF_H

#include "bpf/lib/compat.bpf.h"
#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/abi/task.h"

/* Macros, which BTF does not contain: include/linux/sched.h, include/linux/sched/signal.h,
 * include/linux/mm_types.h (include/linux/sched/coredump.h before 6.18). None has changed since
 * 5.x. */
#define PF_EXITING 0x4
#define PF_KTHREAD 0x200000
#define SIGNAL_GROUP_EXIT 0x4
#define MMF_OOM_SKIP 21

static __always_inline int mm_oom_skip(struct mm_struct* mm) {
  struct mm_struct___bitmap_flags* bitmap = (void*)mm;
  unsigned long flags;

  if (bpf_core_field_exists(bitmap->flags.__mm_flags))
    flags = BPF_CORE_READ(bitmap, flags.__mm_flags[0]);
  else
    flags = BPF_CORE_READ(mm, flags);
  return flags >> MMF_OOM_SKIP & 1;
}

static __always_inline int rss_is_atomic(void) {
  return bpf_core_field_exists(((struct mm_struct___atomic_rss*)0)->rss_stat.count);
}

/* Address of one percpu_counter of the mm. */
static __always_inline struct percpu_counter* rss_counter(struct mm_struct* mm, int i) {
  return (void*)mm + bpf_core_field_offset(struct mm_struct, rss_stat) +
         i * bpf_core_type_size(struct percpu_counter);
}

/* max(pages, 0). Without a branch, because the verifier would follow both paths for each counter.
 */
static __always_inline __s64 positive(__s64 pages) {
  return pages & ~(pages >> 63);
}

/* get_mm_counter() without sums, of all four counters: percpu_counter_read_positive(), or an
 * atomic. The barriers keep each branch whole. Otherwise the compiler computes both offsets before
 * the check, and the kernel refuses the one that its BTF lacks. */
static __always_inline void mm_counted(struct mm_struct* mm, __s64* pages) {
  if (rss_is_atomic()) {
    struct mm_struct___atomic_rss* atomic = (void*)mm;

    barrier_var(atomic);
    bpf_core_read(pages, ABI_TASK_COUNTERS * sizeof(*pages), &atomic->rss_stat.count);
  } else {
    barrier_var(mm);
    for (int i = 0; i < ABI_TASK_COUNTERS; i++) {
      struct percpu_counter* counter = rss_counter(mm, i);

      pages[i] = BPF_CORE_READ(counter, count);
    }
  }
  for (int i = 0; i < ABI_TASK_COUNTERS; i++) pages[i] = positive(pages[i]);
}

/* in_vfork(): the mm belongs to a parent that waits. */
static __always_inline int in_vfork(struct task_struct* task, struct mm_struct* mm) {
  struct task_struct* parent;

  if (!BPF_CORE_READ(task, vfork_done)) return 0;
  parent = BPF_CORE_READ(task, real_parent);
  return parent && BPF_CORE_READ(parent, mm) == mm;
}

struct thread_search {
  __u64 head; /* signal->thread_head */
  __u64 node; /* thread_node of the current one */
  struct task_struct* found;
};

static __always_inline struct task_struct* thread_of_node(__u64 node) {
  return (void*)node - bpf_core_field_offset(struct task_struct, thread_node);
}

static long find_mm(__u32 i, struct thread_search* search) {
  struct task_struct* thread;
  struct list_head* node;

  if (!search->node || search->node == search->head) return 1;
  thread = thread_of_node(search->node);
  if (BPF_CORE_READ(thread, mm)) {
    search->found = thread;
    return 1;
  }
  node = (void*)search->node;
  search->node = (__u64)BPF_CORE_READ(node, next);
  return 0;
}

#define MAX_THREADS (1 << 20)

/* The second step of find_lock_task_mm(), for a leader without an mm, without its lock: the first
 * thread of the group that has an mm. NULL: none has. */
static __always_inline struct task_struct* thread_with_mm(struct signal_struct* signal) {
  struct thread_search search = {};
  struct list_head* head;

  head = (void*)signal + bpf_core_field_offset(struct signal_struct, thread_head);
  search.head = (__u64)head;
  search.node = (__u64)BPF_CORE_READ(head, next);
  bpf_loop(MAX_THREADS, find_mm, &search, 0);
  return search.found;
}

/* Whether the leader is the only thread (thread_group_empty). */
static __always_inline int only_thread(struct signal_struct* signal) {
  struct list_head links = BPF_CORE_READ(signal, thread_head);

  return links.next == links.prev;
}

/* __task_will_free_mem() of the leader, and whether its mm is not reaped yet. Ignores other users
 * of the mm; userspace, which reads all processes, finds them itself. */
static __always_inline int will_free_mem(__u32 task_flags, struct signal_struct* signal,
                                         struct mm_struct* mm) {
  if (!(BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT) &&
      !((task_flags & PF_EXITING) && only_thread(signal)))
    return 0;
  return !BPF_CORE_READ(signal, core_state) && !mm_oom_skip(mm);
}

#endif
