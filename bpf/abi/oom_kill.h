/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of an event of kind oom_kill: a struct abi_oom_kill, whose first member is the event.
 * The program emits one for each process that mark_victim names: first the chosen process, then the
 * other members of its memory.oom.group.
 */
#ifndef FORESTALL_BPF_ABI_OOM_KILL_H
#define FORESTALL_BPF_ABI_OOM_KILL_H

#include <linux/types.h>

#include "bpf/abi/assert.h"
#include "bpf/abi/event.h"
#include "bpf/abi/task.h"

enum abi_oom_flag {
  /* The tracepoint passed the task and it had an mm: start_ns, counted and page_table_bytes are
   * known. Unset: only `event` describes the victim, and possibly only its pid is set. */
  ABI_OOM_MEMORY = 1 << 0,
  /* constraint, total_pages, domain and chosen_tgid are the kernel's own (struct oom_control, read
   * at fentry/oom_kill_process). Unset: the domain is deduced from the cgroup at its limit, and the
   * other three are unknown. */
  ABI_OOM_EXACT = 1 << 1,
  /* `points` is the kernel's own. Never set with ABI_OOM_WITH_ANOTHER. */
  ABI_OOM_POINTS = 1 << 2,
  /* With ABI_OOM_EXACT: the kernel chose another process and kills this one along with it. */
  ABI_OOM_WITH_ANOTHER = 1 << 3,
  ABI_OOM_DOMAIN_V1 = 1 << 4, /* the domain is in a v1 hierarchy */
  /* domain_usage and domain_limit cover memory and swap together (v1 memory.memsw). */
  ABI_OOM_MEMSW = 1 << 5,
};

/* enum oom_constraint of include/linux/oom.h. */
enum abi_oom_constraint {
  ABI_OOM_CONSTRAINT_NONE,
  ABI_OOM_CONSTRAINT_CPUSET,
  ABI_OOM_CONSTRAINT_MEMORY_POLICY,
  ABI_OOM_CONSTRAINT_MEMCG,
};

struct abi_oom_kill {
  struct abi_event event;           /* of the victim */
  __u64 start_ns;                   /* start_boottime of its thread group leader */
  __s64 counted[ABI_TASK_COUNTERS]; /* as in struct abi_task */
  __u64 page_table_bytes;
  __s64 points;      /* oc->chosen_points */
  __u64 total_pages; /* oc->totalpages */
  /* Kernfs id of the memory cgroup that is out of memory; 0: the node, or some of its NUMA nodes.
   * Without ABI_OOM_EXACT it is deduced: the first of the allocating task's cgroup and its
   * ancestors within a charge batch of its limit, because a charge fails there first. If the victim
   * is not in it, the same search starts at the victim's cgroup. A charge on behalf of another
   * cgroup is attributed wrongly. */
  __u64 domain;
  __u64 domain_usage;    /* bytes */
  __u64 domain_limit;    /* bytes; 0: the node, or no limit */
  __u64 group;           /* kernfs id of the highest cgroup within the domain that has
                            memory.oom.group and the victim in it; 0: none */
  __u64 killer_start_ns; /* of the allocating task: start_boottime of its leader */
  __s32 killer_pid;      /* its thread */
  __s32 killer_tgid;     /* its process */
  __s32 chosen_tgid;     /* with ABI_OOM_EXACT: the process that was chosen */
  __u32 constraint;      /* with ABI_OOM_EXACT: enum abi_oom_constraint */
  __u32 flags;           /* enum abi_oom_flag */
  __u32 pad;
  char killer_comm[ABI_COMM_LENGTH]; /* of the thread */
};

ABI_ASSERT(sizeof(struct abi_oom_kill) == 240, "abi_oom_kill has no hidden padding");

/* The whole record that begins with this event; NULL if the event is of another kind.
 * REQUIRES: `event` is in the ring, not a copy. */
static inline const struct abi_oom_kill* abi_oom_kill_of(const struct abi_event* event) {
  return event->kind == ABI_EVENT_oom_kill ? (const struct abi_oom_kill*)event : 0;
}

#endif
