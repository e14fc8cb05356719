/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Current inactive, or active, file pages of a cgroup and its descendants.
 *
 * memory.stat comes from rstat, which lags by up to two seconds and which a program cannot flush
 * before 7.2. The sizes of the LRU lists are exact, but each memcg has its own, so the program
 * walks the subtree. As in the kernel, it includes removed cgroups that still hold pages.
 */
#ifndef FORESTALL_BPF_FILE_PAGES_BPF_H
#define FORESTALL_BPF_FILE_PAGES_BPF_H

#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/unknown.bpf.h"

/* Bound on the steps of a walk, up to three for each cgroup. A larger subtree is not added up. */
#define SUBTREE_STEPS 4096
/* At least MAX_NR_ZONES of every kernel. */
#define ZONES_MAX 8
/* include/linux/mmzone.h: generations of the multi-generational LRU, and anon before file. */
#define LRU_GENERATIONS 4
#define LRU_TYPES 2

struct subtree {
  __u64 root; /* cgroup_subsys_state addresses */
  __u64 at;
  __u64 pages;
  __u32 climbing; /* `at` was counted on the way down */
  __u32 whole;    /* the walk came back to the root */
  __u32 active;   /* which pages are added up */
};

static __always_inline __u64 long_at(__u64 address) {
  long value = 0;

  bpf_probe_read_kernel(&value, sizeof(value), (void*)address);
  return value > 0 ? (__u64)value : 0;
}

/* Address and size in bytes of an array in mem_cgroup_per_node; both 0 if the kernel has none. */
struct place {
  __u64 address;
  __u64 size;
};

/* The barriers keep each relocation inside its branch: a program must not reach a relocation that
 * this kernel's BTF cannot resolve. */
#define PLACE_OF(place, info, field)                                                              \
  do {                                                                                            \
    if (bpf_core_field_exists(struct mem_cgroup_per_node, field)) {                               \
      barrier_var(info);                                                                          \
      (place).address = info + bpf_core_field_offset(struct mem_cgroup_per_node, field);          \
      (place).size = bpf_core_field_size(struct mem_cgroup_per_node, field);                      \
      barrier();                                                                                  \
    } else if (bpf_core_field_exists(struct mem_cgroup_per_node___nested, field)) {               \
      barrier_var(info);                                                                          \
      (place).address = info + bpf_core_field_offset(struct mem_cgroup_per_node___nested, field); \
      (place).size = bpf_core_field_size(struct mem_cgroup_per_node___nested, field);             \
      barrier();                                                                                  \
    }                                                                                             \
  } while (0)

/* The classic lists; 0 while the multi-generational LRU is on. */
static __always_inline __u64 file_on_lists(__u64 info, __u32 active) {
  __u64 lists = bpf_core_enum_value(enum lru_list, NR_LRU_LISTS);
  __u64 list = active ? bpf_core_enum_value(enum lru_list, LRU_ACTIVE_FILE)
                      : bpf_core_enum_value(enum lru_list, LRU_INACTIVE_FILE);
  struct place sizes = {};
  __u64 pages = 0;

  PLACE_OF(sizes, info, lru_zone_size);
  for (__u64 zone = 0; zone < ZONES_MAX; zone++) {
    __u64 offset = (zone * lists + list) * sizeof(long);

    if (offset < sizes.size) pages += long_at(sizes.address + offset);
  }
  return pages;
}

/* lru_gen_is_active() (include/linux/mm_inline.h): the two youngest generations are active. */
static __always_inline __u64 file_in_generations(__u64 info, __u32 active) {
  struct mem_cgroup_per_node* of = (void*)info;
  struct place sizes = {};
  __u64 zones, youngest, pages = 0;

  if (!bpf_core_field_exists(of->lruvec.lrugen.max_seq)) return 0;
  PLACE_OF(sizes, info, lruvec.lrugen.nr_pages);
  barrier_var(of);
  zones = sizes.size / (LRU_GENERATIONS * LRU_TYPES * sizeof(long));
  youngest = BPF_CORE_READ(of, lruvec.lrugen.max_seq);
  if (!active) youngest -= LRU_GENERATIONS / 2;
  for (__u64 age = 0; age < LRU_GENERATIONS / 2; age++) {
    __u64 generation = (youngest - age) & (LRU_GENERATIONS - 1);

    for (__u64 zone = 0; zone < ZONES_MAX; zone++) {
      if (zone < zones)
        pages +=
            long_at(sizes.address + ((generation * LRU_TYPES + 1) * zones + zone) * sizeof(long));
    }
  }
  return pages;
}

/* Pages of one memcg on one node. Inline: the verifier permits eight frames,
 * which the path to here uses up. */
static __always_inline __u64 file_on_node(__u64 memcg, __u32 nid, __u32 active) {
  __u64 info = 0;

  /* nodeinfo is as long as there are possible nodes; those with memory are among them. */
  if (nid >= NUMA_NODES || !node_pgdats[nid]) return 0;
  bpf_probe_read_kernel(
      &info, sizeof(info),
      (void*)memcg + bpf_core_field_offset(struct mem_cgroup, nodeinfo) + nid * sizeof(info));
  return info ? file_on_lists(info, active) + file_in_generations(info, active) : 0;
}

struct nodes_sum {
  __u64 memcg;
  __u64 pages;
  __u32 active;
};

static long add_file_node(__u32 nid, struct nodes_sum* sum) {
  sum->pages += file_on_node(sum->memcg, nid, sum->active);
  return 0;
}

/* Pages of one memcg. A global function with a callback: the walk below follows a loop over the
 * nodes once for each of its own states, which was half of all instructions that the verifier
 * followed for the guard. */
__noinline __u64 file_of(__u64 memcg, __u32 active) {
  struct nodes_sum sum = {.memcg = memcg, .active = active};

  bpf_loop(node_span, add_file_node, &sum, 0);
  return sum.pages;
}

static __always_inline __u64 css_of_sibling(struct list_head* sibling) {
  return (__u64)sibling - bpf_core_field_offset(struct cgroup_subsys_state, sibling);
}

static __always_inline __u64 children_of(__u64 css) {
  return css + bpf_core_field_offset(struct cgroup_subsys_state, children);
}

/* One step of css_next_descendant_pre() (kernel/cgroup/cgroup.c). */
static long walk_subtree(__u32 i, struct subtree* walk) {
  struct cgroup_subsys_state* css = (void*)walk->at;
  struct list_head* next;
  __u64 parent;

  if (!walk->climbing) {
    walk->pages += file_of((__u64)memcg_of_css(css), walk->active);
    next = BPF_CORE_READ(css, children.next);
    if (!next) return 1;
    if ((__u64)next != children_of(walk->at)) {
      walk->at = css_of_sibling(next);
      return 0;
    }
  }
  if (walk->at == walk->root) {
    walk->whole = 1;
    return 1;
  }
  next = BPF_CORE_READ(css, sibling.next);
  parent = (__u64)BPF_CORE_READ(css, parent);
  if (!next || !parent) return 1;
  walk->climbing = (__u64)next == children_of(parent);
  walk->at = walk->climbing ? parent : css_of_sibling(next);
  return 0;
}

/* Bytes. If the subtree is too large or changes during the walk: 0, and *whole is 0. */
static __always_inline __u64 subtree_file(struct mem_cgroup* memcg, __u32 active, __u32* whole) {
  __u64 root = (__u64)memcg + bpf_core_field_offset(struct mem_cgroup, css);
  struct subtree walk = {.root = root, .at = root, .climbing = unknown_zero(), .active = active};

  bpf_loop(SUBTREE_STEPS, walk_subtree, &walk, 0);
  *whole = walk.whole;
  return walk.whole ? walk.pages << page_shift : 0;
}

#endif
