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
  long counter;
} atomic_long_t;

/* include/linux/cgroup-defs.h, include/linux/kernfs.h */
struct kernfs_node {
  __u64 id;
};

struct cgroup_root {
  int hierarchy_id;
};

struct cgroup;

struct cgroup_subsys_state {
  struct cgroup* cgroup;
  struct cgroup_subsys_state* parent;
};

struct cgroup {
  struct kernfs_node* kn;
  struct cgroup_root* root;
  struct cgroup_subsys_state* subsys[1];
};

struct css_set {
  struct cgroup_subsys_state* subsys[1];
};

enum cgroup_subsys_id { memory_cgrp_id };

/* include/linux/sched.h */
typedef struct {
  __u32 val;
} kuid_t;

struct cred {
  kuid_t uid;
};

struct signal_struct {
  short oom_score_adj;
};

struct task_struct {
  int pid;
  int tgid;
  char comm[16];
  struct signal_struct* signal;
  const struct cred* cred;
  struct css_set* cgroups;
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
};

struct mem_cgroup_per_node {
  struct lruvec lruvec;
};

struct mem_cgroup {
  struct cgroup_subsys_state css;
  struct page_counter memory;
  struct mem_cgroup_per_node* nodeinfo[0];
};

struct oom_control {
  struct mem_cgroup* memcg;
};

/* include/linux/mmzone.h */
enum node_stat_item { NR_INACTIVE_FILE, NR_ANON_MAPPED, NR_FILE_PAGES };
enum zone_stat_item { NR_FREE_PAGES };

struct zone {
  struct pglist_data* zone_pgdat;
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

/* kernel/bpf/cgroup_iter.c */
struct bpf_iter__cgroup {
  struct cgroup* cgroup;
};

#pragma clang attribute pop

#endif
