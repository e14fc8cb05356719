/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of one cgroup, as the program `scan_memcgs` writes it into the memory-mapped array
 * `memcgs`: one record for each memory cgroup of a subtree, parents before their children.
 */
#ifndef FORESTALL_BPF_ABI_MEMCG_H
#define FORESTALL_BPF_ABI_MEMCG_H

#include <linux/types.h>

#include "bpf/abi/assert.h"

/* Runs of the pass by one open iterator. */
#define ABI_MEMCG_RUNS 4096

/* Records of one pass. A larger subtree is not read (ABI_MEMCGS_FULL). */
#define ABI_MEMCGS_MAX 16384

/* The state counters that a record can have: indices into stat_index and abi_memcg.counters. */
enum abi_memcg_counter { ABI_MEMCG_ANON, ABI_MEMCG_SHMEM, ABI_MEMCG_COUNTERS };

/* Bound on the counters of a memcg, of every kernel. */
#define ABI_MEMCG_STATES 64

enum abi_memcg_flag {
  ABI_MEMCG_REMOVED = 1 << 0,   /* its directory is gone, and it still holds memory */
  ABI_MEMCG_PROCESSES = 1 << 1, /* `processes` is complete */
  ABI_MEMCG_FILES = 1 << 2,     /* `inactive_file` and `active_file` are complete */
};

/* Bytes. All but `usage` are of this cgroup alone, without its descendants. */
struct abi_memcg {
  __u64 cgroup; /* kernfs id */
  __u64 usage;  /* the page counter: with descendants */
  __u64 inactive_file;
  __u64 active_file;
  /* By enum abi_memcg_counter; 0 if the index is unknown. Below 0 while another CPU changes it. */
  __s64 counters[ABI_MEMCG_COUNTERS];
  __u32 level;     /* 0: the cgroup where the pass began */
  __u32 processes; /* thread groups */
  __u32 flags;     /* enum abi_memcg_flag */
  __u32 pad;
};

/* Processes that one pass can list. */
#define ABI_LISTED_MAX 4096

/* Names of a listed cgroup and of those above it, each with its zero. */
#define ABI_NAMES_MAX 32
#define ABI_NAME_BYTES 256

/* A process of the cgroup whose processes a pass lists, as it writes them into the memory-mapped
 * array `listed`. */
struct abi_listed {
  __u64 start_ns; /* start_boottime of the thread group leader */
  __s32 pid;      /* tgid in the initial pid namespace */
  __u32 apart;    /* a thread is in another memory cgroup than the leader, or may be */
};

/* Result of a pass. */
enum abi_memcgs_state {
  ABI_MEMCGS_EMPTY, /* the program did not run */
  ABI_MEMCGS_GONE,  /* the cgroup where it should begin was removed */
  ABI_MEMCGS_TORN,  /* a list led nowhere */
  ABI_MEMCGS_FULL,
  ABI_MEMCGS_DONE,
};

ABI_ASSERT(sizeof(struct abi_listed) == 16, "abi_listed is 16 bytes without hidden padding");
ABI_ASSERT(sizeof(struct abi_memcg) == 64, "abi_memcg is 64 bytes without hidden padding");

#endif
