/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory cgroups as numbers: only bpf_probe_read_kernel follows an address, so a stale or NULL one
 * reads as 0. The same code serves v1 and v2, because both use css_set.subsys[memory_cgrp_id].
 */
#ifndef FORESTALL_BPF_MEMCG_BPF_H
#define FORESTALL_BPF_MEMCG_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* log2 of the kernel's page size; set before loading. */
const volatile __u32 page_shift __weak = 12;

/* Bound on the levels of a climb from a leaf to the root, each a step of bpf_loop. A tenant decides
 * how deep its tree is. One climb over so many levels takes about 0.1 ms. */
#define TREE_LEVELS 1024

/* The mem_cgroup of a css: the css is its first member so far, and BTF has the offset. */
static __always_inline struct mem_cgroup* memcg_of_css(struct cgroup_subsys_state* css) {
  return css ? (void*)css - bpf_core_field_offset(struct mem_cgroup, css) : 0;
}

static __always_inline struct cgroup_subsys_state* memory_css(struct cgroup_subsys_state** subsys) {
  struct cgroup_subsys_state* css = 0;
  int index = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);

  bpf_probe_read_kernel(&css, sizeof(css), (void*)subsys + index * sizeof(css));
  return css;
}

static __always_inline struct mem_cgroup* memcg_of_task(struct task_struct* task) {
  struct css_set* set = BPF_CORE_READ(task, cgroups);

  if (!set) return 0;
  return memcg_of_css(memory_css((void*)set + bpf_core_field_offset(struct css_set, subsys)));
}

/* NULL when the memory controller is not enabled for this cgroup. */
static __always_inline struct mem_cgroup* memcg_of_cgroup(struct cgroup* cgroup) {
  return memcg_of_css(memory_css((void*)cgroup + bpf_core_field_offset(struct cgroup, subsys)));
}

static __always_inline struct mem_cgroup* memcg_parent(struct mem_cgroup* memcg) {
  return memcg_of_css(BPF_CORE_READ(memcg, css.parent));
}

/* Inode number of its directory; 0 if the address is not, or no longer, that of a cgroup. */
static __always_inline __u64 memcg_id(struct mem_cgroup* memcg) {
  return BPF_CORE_READ(memcg, css.cgroup, kn, id);
}

static __always_inline __u64 memcg_usage(struct mem_cgroup* memcg) {
  return (__u64)BPF_CORE_READ(memcg, memory.usage.counter) << page_shift;
}

/* In bytes, as in memory.max or memory.limit_in_bytes. */
static __always_inline __u64 memcg_limit(struct mem_cgroup* memcg) {
  return (__u64)BPF_CORE_READ(memcg, memory.max) << page_shift;
}

#endif
