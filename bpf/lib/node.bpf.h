/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The node's memory counters, reached through a memory cgroup. Data symbols need
 * CONFIG_KALLSYMS_ALL, which locked-down kernels lack. But each memcg's nodeinfo points to its
 * pglist_data, whose zonelist contains the zones of all nodes with memory.
 *
 * Each object that includes this file runs find_nodes() once.
 */
#ifndef FORESTALL_BPF_NODE_BPF_H
#define FORESTALL_BPF_NODE_BPF_H

#include "bpf/abi/watch.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"

#define NUMA_NODES 64

/* Filled by find_nodes(): each node's pglist_data, and one of them, where a walk over all zones
 * starts. */
__u64 node_pgdats[NUMA_NODES];
__u64 any_pgdat;
/* One more than the highest node with memory. */
__u32 node_span;

static __always_inline __u64 pages_at(__u64 base, __u64 offset, int index) {
  long pages = 0;

  if (bpf_probe_read_kernel(&pages, sizeof(pages), (void*)(base + offset + index * sizeof(pages))))
    COUNT_FAILURE(read);
  return pages > 0 ? (__u64)pages << page_shift : 0;
}

/* The index is BTF's. On a kernel without the counter, find_nodes() finds no node; the check here
 * keeps the object loadable. */
#define ADD_NODE_STAT(sum, pgdat, item)                                            \
  do {                                                                             \
    if (bpf_core_enum_value_exists(enum node_stat_item, item))                     \
      (sum) += pages_at(pgdat, bpf_core_field_offset(struct pglist_data, vm_stat), \
                        bpf_core_enum_value(enum node_stat_item, item));           \
  } while (0)

static __always_inline int node_counters_exist(void) {
  return bpf_core_enum_value_exists(enum node_stat_item, NR_FILE_PAGES) &&
         bpf_core_enum_value_exists(enum node_stat_item, NR_ANON_MAPPED) &&
         bpf_core_enum_value_exists(enum node_stat_item, NR_INACTIVE_FILE) &&
         bpf_core_enum_value_exists(enum zone_stat_item, NR_FREE_PAGES);
}

static long add_node(__u32 nid, struct abi_node_usage* sum) {
  __u64 pgdat;

  if (nid >= NUMA_NODES) return 1;
  pgdat = node_pgdats[nid];
  if (!pgdat) return 0;
  ADD_NODE_STAT(sum->file, pgdat, NR_FILE_PAGES);
  ADD_NODE_STAT(sum->anon, pgdat, NR_ANON_MAPPED);
  ADD_NODE_STAT(sum->inactive_file, pgdat, NR_INACTIVE_FILE);
  return 0;
}

static __always_inline void read_node(struct abi_node_usage* sum) {
  __builtin_memset(sum, 0, sizeof(*sum));
  sum->at_ns = bpf_ktime_get_ns();
  if (bpf_loop(NUMA_NODES, add_node, sum, 0) < 0) COUNT_FAILURE(timer);
}

struct zone_walk {
  __u64 zoneref; /* address of the first one */
  __u64 free;
};

/* Visits one zoneref: records its node and adds up its free pages. */
static long visit_zone(__u32 i, struct zone_walk* walk) {
  struct zoneref* ref = (void*)(walk->zoneref + i * bpf_core_type_size(struct zoneref));
  struct zone* zone = BPF_CORE_READ(ref, zone);
  struct pglist_data* pgdat;
  __u32 nid;

  if (!zone) return 1;
  if (bpf_core_enum_value_exists(enum zone_stat_item, NR_FREE_PAGES))
    walk->free += pages_at((__u64)zone, bpf_core_field_offset(struct zone, vm_stat),
                           bpf_core_enum_value(enum zone_stat_item, NR_FREE_PAGES));
  pgdat = BPF_CORE_READ(zone, zone_pgdat);
  nid = BPF_CORE_READ(pgdat, node_id);
  if (nid >= NUMA_NODES) {
    COUNT_FAILURE(setup);
    return 0;
  }
  node_pgdats[nid] = (__u64)pgdat;
  if (nid >= node_span) node_span = nid + 1;
  return 0;
}

/* Sum of free pages over all zones, in bytes. Also fills node_pgdats. */
static __always_inline __u64 walk_zones(__u64 pgdat) {
  struct zone_walk walk = {
      .zoneref = pgdat + bpf_core_field_offset(struct pglist_data, node_zonelists) +
                 bpf_core_field_offset(struct zonelist, _zonerefs),
  };

  if (bpf_loop(NUMA_NODES * 8, visit_zone, &walk, 0) < 0) COUNT_FAILURE(setup);
  return walk.free;
}

/* More than a kernel has kinds of zones (MAX_NR_ZONES). */
#define ZONE_KINDS 8

struct available_walk {
  __u64 zoneref; /* address of the first one */
  __u64 free;
  __u64 reserve; /* pages that no process may use */
  __u64 low;     /* sum of the low watermarks */
};

static __always_inline __u64 to_bytes(long pages) {
  return pages > 0 ? (__u64)pages << page_shift : 0;
}

/* What the kernel keeps back of a zone (mm/page_alloc.c calculate_totalreserve_pages()). */
static __always_inline __u64 reserve_of(struct zone* zone, __u64 high) {
  long reserves[ZONE_KINDS] = {};
  __u32 size = bpf_core_field_size(struct zone, lowmem_reserve);
  __u64 managed = to_bytes(BPF_CORE_READ(zone, managed_pages.counter));
  __u64 reserve = 0;

  if (size > sizeof(reserves)) size = sizeof(reserves);
  if (bpf_probe_read_kernel(reserves, size,
                            (void*)zone + bpf_core_field_offset(struct zone, lowmem_reserve)))
    COUNT_FAILURE(read);
  for (int i = 0; i < ZONE_KINDS; ++i) {
    if (to_bytes(reserves[i]) > reserve) reserve = to_bytes(reserves[i]);
  }
  reserve += high;
  return reserve < managed ? reserve : managed;
}

static __always_inline __u64 watermark(struct zone* zone, int index) {
  return pages_at((__u64)zone, bpf_core_field_offset(struct zone, _watermark), index);
}

static long visit_zone_reserve(__u32 i, struct available_walk* walk) {
  struct zoneref* ref = (void*)(walk->zoneref + i * bpf_core_type_size(struct zoneref));
  struct zone* zone = BPF_CORE_READ(ref, zone);

  if (!zone) return 1;
  if (!bpf_core_enum_value_exists(enum zone_stat_item, NR_FREE_PAGES) ||
      !bpf_core_enum_value_exists(enum zone_watermarks, WMARK_LOW) ||
      !bpf_core_enum_value_exists(enum zone_watermarks, WMARK_HIGH))
    return 1;
  walk->free += pages_at((__u64)zone, bpf_core_field_offset(struct zone, vm_stat),
                         bpf_core_enum_value(enum zone_stat_item, NR_FREE_PAGES));
  walk->low += watermark(zone, bpf_core_enum_value(enum zone_watermarks, WMARK_LOW)) +
               to_bytes(BPF_CORE_READ(zone, watermark_boost));
  walk->reserve +=
      reserve_of(zone, watermark(zone, bpf_core_enum_value(enum zone_watermarks, WMARK_HIGH)));
  return 0;
}

struct reclaimable_sum {
  __u64 files;
  __u64 kernel;
};

static long add_reclaimable(__u32 nid, struct reclaimable_sum* sum) {
  __u64 pgdat;

  if (nid >= NUMA_NODES) return 1;
  pgdat = node_pgdats[nid];
  if (!pgdat) return 0;
  ADD_NODE_STAT(sum->files, pgdat, NR_ACTIVE_FILE);
  ADD_NODE_STAT(sum->files, pgdat, NR_INACTIVE_FILE);
  ADD_NODE_STAT(sum->kernel, pgdat, NR_SLAB_RECLAIMABLE_B);
  ADD_NODE_STAT(sum->kernel, pgdat, NR_KERNEL_MISC_RECLAIMABLE);
  return 0;
}

static __always_inline int available_counters_exist(void) {
  return bpf_core_enum_value_exists(enum zone_stat_item, NR_FREE_PAGES) &&
         bpf_core_enum_value_exists(enum node_stat_item, NR_ACTIVE_FILE) &&
         bpf_core_enum_value_exists(enum node_stat_item, NR_INACTIVE_FILE) &&
         bpf_core_enum_value_exists(enum node_stat_item, NR_SLAB_RECLAIMABLE_B) &&
         bpf_core_enum_value_exists(enum node_stat_item, NR_KERNEL_MISC_RECLAIMABLE) &&
         bpf_core_enum_value_exists(enum zone_watermarks, WMARK_LOW) &&
         bpf_core_enum_value_exists(enum zone_watermarks, WMARK_HIGH) &&
         bpf_core_field_exists(struct zone, _watermark) &&
         bpf_core_field_exists(struct zone, watermark_boost) &&
         bpf_core_field_exists(struct zone, lowmem_reserve) &&
         bpf_core_field_exists(struct zone, managed_pages) &&
         bpf_core_field_size(struct zone, lowmem_reserve) <= ZONE_KINDS * sizeof(long);
}

/* Of the amount, what can be reclaimed: as much as the low watermarks is assumed to be needed. */
static __always_inline __u64 without_needed(__u64 amount, __u64 low) {
  return amount - (amount / 2 < low ? amount / 2 : low);
}

/* Sums over the zones that `any` leads to, and over node_pgdats. */
static __always_inline __u64 read_available(__u64 any) {
  struct available_walk walk = {
      .zoneref = any + bpf_core_field_offset(struct pglist_data, node_zonelists) +
                 bpf_core_field_offset(struct zonelist, _zonerefs),
  };
  struct reclaimable_sum sum = {};
  __u64 available;

  if (!any || !available_counters_exist()) return ABI_NOT_AVAILABLE;
  if (bpf_loop(NUMA_NODES * 8, visit_zone_reserve, &walk, 0) < 0 ||
      bpf_loop(NUMA_NODES, add_reclaimable, &sum, 0) < 0) {
    COUNT_FAILURE(timer);
    return ABI_NOT_AVAILABLE;
  }
  available =
      walk.free + without_needed(sum.files, walk.low) + without_needed(sum.kernel, walk.low);
  return available > walk.reserve ? available - walk.reserve : 0;
}

struct root_walk {
  struct mem_cgroup* memcg;
};

static long climb(__u32 i, struct root_walk* walk) {
  struct mem_cgroup* parent = memcg_parent(walk->memcg);

  if (!parent) return 1;
  walk->memcg = parent;
  return 0;
}

/* The root of the memory hierarchy; NULL if the current task has no memory cgroup. */
static __always_inline struct mem_cgroup* root_memcg(void) {
  struct root_walk walk = {.memcg = memcg_of_task((void*)bpf_get_current_task())};

  if (walk.memcg) bpf_loop(TREE_LEVELS, climb, &walk, 0);
  return walk.memcg;
}

struct pgdat_search {
  __u64 root;
  __u64 pgdat;
};

static long find_pgdat(__u32 nid, struct pgdat_search* search) {
  struct mem_cgroup_per_node* info = 0;

  bpf_probe_read_kernel(&info, sizeof(info),
                        (void*)search->root + bpf_core_field_offset(struct mem_cgroup, nodeinfo) +
                            nid * sizeof(info));
  if (!info) return 0;
  search->pgdat = (__u64)BPF_CORE_READ(info, lruvec.pgdat);
  return search->pgdat != 0;
}

/* pglist_data of the first node in the root memcg. lruvec.pgdat is set on first use, so a node
 * without pages may have none. */
static __always_inline __u64 first_pgdat(struct mem_cgroup* root) {
  struct pgdat_search search = {.root = (__u64)root};

  bpf_loop(NUMA_NODES, find_pgdat, &search, 0);
  return search.pgdat;
}

/* Prepares read_node() and walk_zones(). 0: no node was found, or the kernel lacks a counter. */
static __always_inline int find_nodes(struct mem_cgroup* root) {
  any_pgdat = node_counters_exist() ? first_pgdat(root) : 0;
  if (!any_pgdat) return 0;
  walk_zones(any_pgdat);
  return 1;
}

#endif
