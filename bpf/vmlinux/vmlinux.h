/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types the programs touch, and of each only the fields they touch.
 *
 * Written by hand instead of generated: a builder without BTF builds the same object, and what the
 * programs depend on can be read on one page. preserve_access_index makes every field a CO-RE
 * relocation, so offsets, sizes and order here mean nothing; names and kinds do. Array lengths mean
 * nothing either. What differs between kernels by name or kind stands in lib/compat.bpf.h.
 *
 * BPF's own constants and map types come from <linux/bpf.h>, the fixed-width types from
 * <linux/types.h>.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
  int counter;
} atomic_t;

typedef struct {
  long counter;
} atomic_long_t;

struct list_head {
  struct list_head *next, *prev;
};

/* include/linux/cgroup-defs.h, include/linux/kernfs.h */
struct kernfs_node {
  __u64 id;
  const char* name;
};

struct cgroup_root {
  int hierarchy_id;
};

struct cgroup;

struct cgroup_subsys_state {
  struct cgroup* cgroup;
  unsigned int flags;
  struct cgroup_subsys_state* parent;
  struct list_head sibling;  /* in its parent's children */
  struct list_head children; /* those that are removed but still hold memory are among them */
};

struct cgroup {
  struct kernfs_node* kn;
  struct cgroup_root* root;
  struct cgroup_subsys_state* subsys[1];
  struct list_head e_csets[1]; /* css_sets of this cgroup, by controller */
};

struct css_set {
  struct cgroup_subsys_state* subsys[1];
  struct list_head tasks, mg_tasks, dying_tasks;
  struct list_head e_cset_node[1];
};

enum cgroup_subsys_id { memory_cgrp_id };

/* include/linux/pid_types.h */
enum pid_type { PIDTYPE_PID, PIDTYPE_TGID };

/* include/linux/sched.h */
typedef struct {
  __u32 val;
} kuid_t;

struct cred {
  kuid_t uid;
};

struct core_state;

struct mm_struct;

struct signal_struct {
  struct list_head thread_head;
  unsigned int flags;
  atomic_t live;
  struct core_state* core_state;
  _Bool oom_flag_origin;
  short oom_score_adj;
  struct mm_struct* oom_mm;
};

/* include/linux/nodemask.h */
typedef struct {
  unsigned long bits[1];
} nodemask_t;

struct mempolicy {
  unsigned short mode;
  nodemask_t nodes;
};

struct completion;

struct task_struct {
  unsigned int flags;
  int exit_state;
  int pid;
  int tgid;
  char comm[16];
  struct list_head tasks;
  struct list_head thread_node;
  struct task_struct* group_leader;
  struct task_struct* real_parent;
  struct completion* vfork_done;
  struct mm_struct* mm;
  struct signal_struct* signal;
  const struct cred* real_cred;
  const struct cred* cred;
  __u64 start_boottime;
  nodemask_t mems_allowed;     /* with CONFIG_CPUSETS */
  struct mempolicy* mempolicy; /* with CONFIG_NUMA */
  struct css_set* cgroups;
  struct list_head cg_list;
};

/* include/linux/percpu_counter.h, include/linux/mm_types.h */
struct percpu_counter {
  __s64 count;
  __s32* counters; /* per CPU */
};

struct mm_struct {
  atomic_t mm_users;
  atomic_long_t pgtables_bytes;
  struct percpu_counter rss_stat[4]; /* or mm_struct___atomic_rss */
  unsigned long flags;               /* or mm_struct___bitmap_flags */
};

/* include/linux/page_counter.h, include/linux/memcontrol.h, include/linux/oom.h */
struct page_counter {
  atomic_long_t usage;
  unsigned long max;
  struct page_counter* parent;
};

struct zone;
struct pglist_data;

struct lruvec {
  struct pglist_data* pgdat;
  struct {
    unsigned long max_seq;
    long nr_pages[1]; /* [MAX_NR_GENS][ANON_AND_FILE][MAX_NR_ZONES] */
  } lrugen;           /* with CONFIG_LRU_GEN; its type was renamed in 6.4 */
};

struct mem_cgroup_per_node {
  struct lruvec lruvec;
  unsigned long lru_zone_size[1]; /* [MAX_NR_ZONES][NR_LRU_LISTS] */
};

struct memcg_vmstats_percpu {
  long state[1];
};

struct mem_cgroup {
  struct cgroup_subsys_state css;
  struct memcg_vmstats_percpu* vmstats_percpu;
  struct page_counter memory;
  struct page_counter memsw; /* on v2 the same place counts swap alone */
  _Bool oom_group;
  _Bool oom_lock; /* with cgroup v1 (MEMCG_V1) only */
  struct mem_cgroup_per_node* nodeinfo[0];
};

enum oom_constraint { CONSTRAINT_NONE };

struct oom_control {
  struct mem_cgroup* memcg;
  unsigned long totalpages;
  struct task_struct* chosen;
  long chosen_points;
  enum oom_constraint constraint;
};

/* include/linux/mmzone.h */
enum lru_list { LRU_INACTIVE_FILE, LRU_ACTIVE_FILE, NR_LRU_LISTS };
enum node_stat_item {
  NR_INACTIVE_FILE,
  NR_ACTIVE_FILE,
  NR_SLAB_RECLAIMABLE_B,
  NR_ANON_MAPPED,
  NR_FILE_PAGES,
  NR_KERNEL_MISC_RECLAIMABLE
};
enum zone_stat_item { NR_FREE_PAGES };
enum zone_watermarks { WMARK_LOW, WMARK_HIGH };

struct zone {
  unsigned long _watermark[1];
  unsigned long watermark_boost;
  long lowmem_reserve[1];
  struct pglist_data* zone_pgdat;
  atomic_long_t managed_pages;
  atomic_long_t vm_stat[1];
};

struct zoneref {
  struct zone* zone;
};

struct zonelist {
  struct zoneref _zonerefs[1];
};

struct pglist_data {
  struct zonelist node_zonelists[1];
  int node_id;
  atomic_long_t vm_stat[1];
};

/* include/linux/bpf.h: an array map; of a per-CPU one, each element is a per-CPU pointer. */
struct bpf_array {
  void* pptrs[0];
};

/* kernel/bpf/bpf_iter.c, cgroup_iter.c, task_iter.c */
struct seq_file;

struct bpf_iter_meta {
  struct seq_file* seq;
};

struct bpf_iter__cgroup {
  struct cgroup* cgroup;
};

struct bpf_iter__task {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
};

/* kernel/bpf/map_iter.c */
struct bpf_map {
  __u32 id;
  __u32 value_size;
  struct btf* btf;
  char name[16];
};

struct bpf_iter__bpf_map {
  struct bpf_iter_meta* meta;
  struct bpf_map* map;
};

struct bpf_iter__bpf_map_elem {
  struct bpf_iter_meta* meta;
  struct bpf_map* map;
  void* key;
  void* value;
};

#pragma clang attribute pop

#endif
