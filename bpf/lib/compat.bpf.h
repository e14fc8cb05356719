/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Differences between kernels, with the release that changed each. No code checks a version: the
 * loader reads the kernel's BTF and sets the constants below before it loads the object.
 *
 * Tracepoint programs are raw_tp, not tp_btf. A tp_btf argument is a typed pointer that the
 * verifier assumes to be non-NULL: it deletes `if (!p)` and turns p->field into an unguarded load.
 * On 7.2 mm_vmscan_direct_reclaim_begin does pass a NULL memcg, and such a program oopses the
 * kernel. A raw_tp argument is a number; only bpf_probe_read_kernel can follow it, and that accepts
 * any address. fentry arguments are typed too, so ARG() turns them into numbers.
 */
#ifndef FORESTALL_BPF_COMPAT_BPF_H
#define FORESTALL_BPF_COMPAT_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_helpers.h>

/*
 * mm_vmscan_memcg_reclaim_begin(order, gfp) became (gfp, order, memcg) in 7.2. The programs read
 * neither order nor gfp; they read the memcg if this constant is 1. Remove when the baseline
 * is 7.2.
 */
const volatile __u8 reclaim_passes_memcg __weak = 0;

/*
 * mark_victim(int pid) became (task, uid) in 6.9 ("mm: update mark_victim tracepoints fields") and
 * in 6.1-stable. If the tracepoint passes only a pid, the event has only a pid. Remove when the
 * baseline is 6.9.
 */
const volatile __u8 mark_victim_passes_task __weak = 1;

/*
 * mm_struct.rss_stat was an array of atomics until it became one of percpu_counters in 6.2
 * (f1a7941243c1 "mm: convert mm's rss stats into percpu_counter"). Remove when the baseline is 6.2.
 */
struct mm_struct___atomic_rss {
  struct {
    atomic_long_t count[4];
  } rss_stat;
} __attribute__((preserve_access_index));

/*
 * mm_struct.flags was a word until it became a bitmap type in 6.18 ("mm: convert core mm to
 * mm_flags_*() accessors" and later commits). Bits kept their numbers. Remove when the baseline is
 * 6.18.
 */
struct mm_struct___bitmap_flags {
  struct {
    unsigned long __mm_flags[1];
  } flags;
} __attribute__((preserve_access_index));

/*
 * BTF before 7.2 has an array of arrays as one flat array, since 7.2 as nested arrays. CO-RE treats
 * the two as incompatible, even for an offset alone. Remove when the baseline is 7.2.
 */
struct mem_cgroup_per_node___nested {
  struct {
    struct {
      long nr_pages[1][1][1];
    } lrugen;
  } lruvec;
  unsigned long lru_zone_size[1][1];
} __attribute__((preserve_access_index));

/* Argument `i` of an fentry or fexit program as a number, without the verifier's type (see above).
 */
#define ARG(ctx, i)                                                            \
  ({                                                                           \
    __u64 arg_value = 0;                                                       \
    bpf_probe_read_kernel(&arg_value, sizeof(arg_value), &((__u64*)(ctx))[i]); \
    arg_value;                                                                 \
  })

#endif
