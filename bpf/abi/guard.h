/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard: whom the kernel side may kill when userspace does not get to it, and what it tells
 * about each shot. Plain C, included by the program and by C++.
 *
 * A list is written by userspace and read by programs at the same time, and userspace may be
 * stopped between any two instructions: that is what the guard is for. So each slot has two banks.
 * Userspace fills the one that is not in force and publishes it with one store; a program copies
 * what it needs and looks afterwards whether the same list is still in force. Half a list is never
 * seen, and a writer that is stopped leaves the last whole one behind, until it expires.
 */
#ifndef FORESTALL_BPF_ABI_GUARD_H
#define FORESTALL_BPF_ABI_GUARD_H

#include <linux/types.h>

#include "bpf/abi/assert.h"
#include "bpf/abi/event.h"

/* Slot 0 is the node; the others are cgroups. */
#define ABI_GUARD_NODE 0
#define ABI_GUARD_SLOTS 32
/* Processes of one list; a bit each in one word. */
#define ABI_GUARD_VICTIMS 32
/* Most CPUs that have a clock of their own. */
#define ABI_GUARD_CPUS 1024

/* A process that policy has approved. It is shot only if it still is this very process, and still
 * in that cgroup or below. */
struct abi_guard_victim {
  __u64 start_ns; /* start_boottime of its thread group leader */
  __u64 cgroup;   /* kernfs id in the memory hierarchy, of the workload it was approved in */
  __u64 expected; /* bytes that its end is expected to give back; only reported */
  __s32 tgid;     /* in the initial pid namespace */
  __u32 group;    /* equal for those of one workload, who go together; counts up from 0 */
};

struct abi_guard_list {
  __u64 generation; /* of this list; never 0, and never the same twice in a slot */
  __u64 line;       /* bytes of working set at which it fires */
  __u64 expires_ns; /* CLOCK_MONOTONIC; from then on the list is as good as none */
  /* The slot's `shots` as userspace knew them when it made the list. One that was made in ignorance
   * of a shot does not fire; and because firing adds one, no list fires twice. */
  __u64 shots_seen;
  /* Bytes of inactive file pages below the subject when the list was made; stands in where the
   * program cannot add them up itself. */
  __u64 inactive_file;
  __u32 victim_count;
  __u32 pad;
  struct abi_guard_victim victims[ABI_GUARD_VICTIMS]; /* groups in order */
};

/* One slot of the memory-mapped array `guard_slots`. */
struct abi_guard_slot {
  __u64 published; /* generation in force, in banks[published % 2]; 0: none, nothing fires */
  __u64 shots;     /* times the slot fired; only the programs write it */
  struct abi_guard_list banks[2];
};

/* What became of one victim, or of a crossing as a whole. */
enum abi_guard_report_kind {
  ABI_GUARD_CROSSED = 1, /* usage reached the line: told at once, before anybody is shot */
  ABI_GUARD_SHOT,        /* SIGKILL was sent to the victim */
  ABI_GUARD_DYING,       /* the victim is being killed already, which is as good */
  ABI_GUARD_FAILED,      /* the kernel refused for good */
  ABI_GUARD_GIVEN_UP,    /* the list expired or was replaced before the victim could be shot */
  ABI_GUARD_NOBODY,      /* crossed, but nobody on the list is who was approved */
};

/* Which way the signal went. */
enum abi_guard_way {
  ABI_GUARD_BY_NONE,
  ABI_GUARD_BY_TASK,    /* bpf_send_signal_task */
  ABI_GUARD_BY_CURRENT, /* bpf_send_signal: the victim itself was running */
};

/* Where the program ran. */
enum abi_guard_hook {
  ABI_GUARD_TIMER = 1,
  ABI_GUARD_RECLAIM,
  ABI_GUARD_CHARGE,
  ABI_GUARD_COMMAND, /* run by userspace */
};

/* One record of the ring. */
struct abi_guard_report {
  __u64 at_ns;                    /* CLOCK_MONOTONIC */
  __u64 crossed_ns;               /* when the line was seen crossed */
  __u64 cgroup;                   /* subject; 0: the node */
  __u64 generation;               /* of the list */
  __u64 usage;                    /* bytes of working set when the line was seen crossed */
  __u64 line;                     /* bytes */
  __u64 shots;                    /* of the slot, this crossing included */
  __u64 workload_usage;           /* bytes the victim's workload used right before; 0: unknown */
  struct abi_guard_victim victim; /* zeroes: crossed, nobody */
  __u32 kind;                     /* enum abi_guard_report_kind */
  __u32 way;                      /* enum abi_guard_way */
  __u32 hook;                     /* enum abi_guard_hook */
  __s32 code;                     /* what the last send returned: 0 or a negative errno */
  __u32 refused;                  /* sends that were refused before, for this crossing */
  __s32 tgid;                     /* who was running when it was sent; 0: the idle task */
  char comm[ABI_COMM_LENGTH];     /* its name */
};

/* What the programs did not do. Summed over CPUs by atomic adds. */
struct abi_guard_counts {
  __u64 ticks;      /* runs of the clocks */
  __u64 looks;      /* usages read */
  __u64 crossings;  /* lines that fired */
  __u64 refused;    /* sends that were refused, to be tried again */
  __u64 unapproved; /* listed processes that are not who was approved */
  __u64 unread;     /* subtrees too large to add up their inactive file pages */
  __u64 dropped;    /* reports that the ring had no room for */
};

/* Argument block of the program `guard_sample`. */
struct abi_guard_sample {
  __u32 slot;
  __u32 exact;         /* whether inactive_file could be added up */
  __u64 usage;         /* bytes */
  __u64 inactive_file; /* bytes; of the node it is taken off `usage` already: 0 */
};

ABI_ASSERT(sizeof(struct abi_guard_victim) == 32, "abi_guard_victim has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_list) == 48 + 32 * ABI_GUARD_VICTIMS,
           "abi_guard_list has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_report) == 136, "abi_guard_report has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_sample) == 24, "abi_guard_sample has no hidden padding");

#endif
