/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The guard: the processes that the BPF programs may kill when userspace is stopped or starved, and
 * the reports about each kill. The programs (C) and the agent (C++) include this file.
 *
 * Userspace writes a list while programs read it, and userspace may be stopped between any two
 * instructions. So each slot has two banks. Userspace fills the bank that is not in force and
 * publishes it with one store (release). A program reads which list is in force (acquire), copies
 * what it needs and then checks that the same list is still in force, so it never acts on a partial
 * list. If the writer is stopped, the last complete list stays in force until it expires.
 */
#ifndef FORESTALL_BPF_ABI_GUARD_H
#define FORESTALL_BPF_ABI_GUARD_H

#include <linux/types.h>

#include "bpf/abi/assert.h"
#include "bpf/abi/event.h"

/* Slot 0 is the node; the last one is the standing list's; the others are cgroups. */
#define ABI_GUARD_NODE 0
#define ABI_GUARD_STANDING 31
#define ABI_GUARD_SLOTS 32
/* Workloads and processes of the standing list. */
#define ABI_STANDING_WORKLOADS 128
#define ABI_STANDING_PROCESSES 1024
/* Processes in one list; each has a bit in one word. */
#define ABI_GUARD_VICTIMS 32
/* At most this many CPUs have a clock. */
#define ABI_GUARD_CPUS 1024
/* Passed to guard_start_clock instead of a clock's index: runs one round. */
#define ABI_GUARD_NO_CLOCK 0xffffffffU

/* A process that the policy has approved. The guard kills it only if it is still the same process
 * and still in that cgroup or below. */
struct abi_guard_victim {
  __u64 start_ns; /* start_boottime of its thread group leader */
  __u64 cgroup;   /* kernfs id in the memory hierarchy, of the workload it was approved in */
  __u64 expected; /* bytes that the kill is expected to free; only reported */
  __s32 tgid;     /* in the initial pid namespace */
  __u32 group;    /* victims that are killed together; counts up from 0 */
};

struct abi_guard_list {
  __u64 generation; /* of this list; never 0, and never reused in a slot */
  __u64 line;       /* bytes of working set at which it fires; the node's standing list: bytes that
                     * are taken (bpf/abi/watch.h abi_node_taken) */
  __u64 expires_ns; /* CLOCK_MONOTONIC; the list does nothing from then on */
  /* The slot's `firings` as userspace had read them when it made the list. If the slot has fired
   * since, the list does not fire. Firing adds one, so no list fires twice. */
  __u64 firings_read;
  /* Bytes of inactive file pages in the subject's subtree when the list was made. The program uses
   * this if it cannot add them up itself. */
  __u64 inactive_file;
  __u32 victim_count; /* 0 in the standing list */
  /* ---- the standing list only ---- */
  __u32 workload_count;
  __u64 usage;     /* what is compared with the line, when the list was made */
  __u64 limit;     /* of a cgroup, in bytes; the list does not fire with any other */
  __u32 by_growth; /* as with Ranking::kubelet_growth */
  __u32 pad;
  struct abi_guard_victim victims[ABI_GUARD_VICTIMS]; /* groups in order */
};

/*
 * The standing list is for a time in which no other list is in force: memory was not short when
 * userspace was last able to make one. So the program ranks the workloads itself when the line is
 * reached, by the values of that moment. It kills one workload.
 *
 * One entry of the memory-mapped array `standing_workloads`, whose first half belongs to bank 0. A
 * victim's `group` is the index of its workload.
 */
struct abi_standing_workload {
  __u64 memcg;       /* address; the program verifies that it still has this id: */
  __u64 cgroup;      /* kernfs id in the memory hierarchy */
  __u64 working_set; /* bytes, when the list was made */
  __u64 held;        /* bytes without any page cache, then */
  __u64 request;     /* bytes */
  __s32 priority;
  __u16 first; /* its processes in the bank's half of `standing_processes` */
  __u8 count;  /* at most ABI_GUARD_VICTIMS; 0: it may not be killed, nor another in its place */
  __u8 flags;  /* ABI_STANDING_... */
};
/* Every process in it may be killed, unlisted ones too. */
#define ABI_STANDING_WHOLE 1
/* It lies in another listed workload, which counts its growth. */
#define ABI_STANDING_NESTED 2

/* One slot of the memory-mapped array `guard_slots`. */
struct abi_guard_slot {
  __u64 published; /* generation in force, in banks[published % 2]; 0: none, nothing fires */
  __u64 firings;   /* how often the slot fired; only the programs write it */
  struct abi_guard_list banks[2];
};

/*
 * The turn: which guard of this host may fire. A guard can outlive its agent, so the next agent's
 * guard may be in force at the same time. Both share this one entry, which fires for a crossing at
 * most once: the programs count a crossing in the word that names the holder.
 *
 * Programs and agents of different builds share it, so it never changes. A different layout needs
 * another size, and the agent then removes what it cannot read.
 */
struct abi_guard_turn {
  __u64 holder; /* upper half: number of the guard that may fire; lower half: crossings so far */
  /* Slots with a kill that is not over, by bit; of the guards with even and with odd numbers. */
  __u64 busy[2];
  __u64 crossed_ns; /* CLOCK_MONOTONIC, of the last crossing */
  /* Only the holder's userspace writes these: */
  __u64 expires_ns;  /* CLOCK_MONOTONIC, when its last list expires; 0: there is none */
  __u64 agent_start; /* field 22 of /proc/PID/stat */
  __u32 agent;       /* its pid, in the initial pid namespace */
  /* The agent that was the last to use this turn, the holder or the next one; no guard signals it.
   */
  __u32 last_agent;
  __u64 last_agent_start;
};

/* A turn of guards that this agent does not use. */
struct abi_guard_other {
  __u64 expires_ns;
  __u64 agent_start;
  __u64 last_agent_start;
  __u32 agent;
  __u32 last_agent;
  __u32 map;        /* id */
  __u32 unreadable; /* it has another layout: the rest is not known */
};
/* More are counted only. */
#define ABI_GUARD_OTHERS 8

/* Of the reports in the ring. Increase it with every change of abi_guard_report or
 * abi_guard_victim, in layout or in meaning: the next agent reads only the reports of its layout.
 */
#define ABI_GUARD_REPORTS 1

/* Result for one victim, or for a crossing as a whole. */
enum abi_guard_report_kind {
  ABI_GUARD_CROSSED = 1, /* usage reached the line; reported before any signal is sent */
  ABI_GUARD_KILLED,      /* SIGKILL was sent to the victim */
  ABI_GUARD_DYING,       /* the victim was already being killed */
  ABI_GUARD_FAILED,      /* the kernel refused the signal permanently */
  ABI_GUARD_GIVEN_UP,    /* the list expired or was replaced before the victim was signalled */
  ABI_GUARD_NO_VICTIM,   /* crossed, but no listed process is still the approved one, or no listed
                            workload has caused it */
};

/* How the signal was sent. */
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
  __u64 crossed_ns;               /* when the program found the line crossed */
  __u64 cgroup;                   /* subject; 0: the node */
  __u64 generation;               /* of the list */
  __u64 usage;                    /* bytes of working set at crossed_ns */
  __u64 line;                     /* bytes */
  __u64 firings;                  /* of the slot, this crossing included */
  __u64 workload_usage;           /* bytes the victim's workload used right before; 0: unknown */
  struct abi_guard_victim victim; /* zeroes in reports about the crossing */
  __u32 kind;                     /* enum abi_guard_report_kind */
  __u32 way;                      /* enum abi_guard_way */
  __u32 hook;                     /* enum abi_guard_hook */
  __s32 code;                     /* result of the last send: 0 or a negative errno */
  __u32 refused;                  /* sends that were refused before, for this crossing */
  __s32 tgid;                     /* process that was running then; 0: the idle task */
  char comm[ABI_COMM_LENGTH];     /* its name */
  __u32 slot;
  __u32 pad;
};

/* X(name, loss): counters of the guard's programs. `loss` as in ABI_EVENT_COUNTERS. */
#define ABI_GUARD_COUNTERS(X)                                                   \
  X(ticks, 0) /* clock runs */                                                  \
  X(usages_read, 0)                                                             \
  X(crossings, 0)  /* lines that fired */                                       \
  X(refused, 0)    /* signals that the kernel refused; they are retried */      \
  X(unapproved, 0) /* listed processes that are no longer the approved ones */  \
  X(walks, 0)      /* times inactive file pages were added up */                \
  X(walk_ns, 0)    /* time that took, on one CPU */                             \
  X(unread, 1)     /* subtrees too large to add up their inactive file pages */ \
  X(timer, 1)      /* bpf_timer_start refused: that CPU's clock stands */       \
  X(withdrawn, 0)  /* crossings that were over before a signal could be sent */ \
  X(dropped, 1)    /* reports that found the ring full */

/* One copy for all CPUs: the programs add atomically. */
struct abi_guard_counts {
#define ABI_GUARD_COUNTER_FIELD(name, loss) __u64 name;
  ABI_GUARD_COUNTERS(ABI_GUARD_COUNTER_FIELD)
#undef ABI_GUARD_COUNTER_FIELD
};

/* Argument block of the program `guard_sample`. */
struct abi_guard_sample {
  __u32 slot;
  __u32 exact;         /* whether the program could add up inactive_file */
  __u64 usage;         /* bytes */
  __u64 inactive_file; /* bytes; 0 for the node, whose `usage` excludes it already */
  __u64 available;     /* of the node: MemAvailable, or ABI_NOT_AVAILABLE */
};

/* Argument block of the program `guard_place`. */
struct abi_guard_place {
  __u32 slot;
  __u32 pad;
  __u64 memcg;  /* address */
  __u64 cgroup; /* kernfs id; 0: the node */
  __u64 limit;  /* out: bytes */
};

ABI_ASSERT(sizeof(struct abi_guard_victim) == 32, "abi_guard_victim has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_list) == 72 + 32 * ABI_GUARD_VICTIMS,
           "abi_guard_list has no hidden padding");
ABI_ASSERT(sizeof(struct abi_standing_workload) == 48, "abi_standing_workload has no padding");
ABI_ASSERT(sizeof(struct abi_guard_report) == 144, "abi_guard_report has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_turn) == 64, "abi_guard_turn never changes");
ABI_ASSERT(sizeof(struct abi_guard_other) == 40, "abi_guard_other has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_sample) == 32, "abi_guard_sample has no hidden padding");
ABI_ASSERT(sizeof(struct abi_guard_place) == 32, "abi_guard_place has no hidden padding");

#endif
