/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where kernels differ, in one place and dated. Nothing here looks at a version: the loader reads
 * the kernel's BTF and sets the constants below before it loads.
 *
 * Tracepoint programs are raw_tp, not tp_btf. A tp_btf argument is a typed pointer that the
 * verifier takes to be non-NULL; it deletes `if (!p)` and turns p->field into an unguarded load,
 * and on 7.2 mm_vmscan_direct_reclaim_begin does pass a NULL memcg: such a program oopses the
 * kernel. A raw_tp argument is a number; the only way to follow it is bpf_probe_read_kernel, which
 * survives any address. fentry arguments are typed as well, so they are turned into numbers by
 * ARG().
 */
#ifndef FORESTALL_BPF_COMPAT_BPF_H
#define FORESTALL_BPF_COMPAT_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* After vmlinux.h, whose types they use. */
#include <bpf/bpf_helpers.h>

/*
 * mm_vmscan_memcg_reclaim_begin(order, gfp) became (gfp, order, memcg) in 7.2. Order and gfp are
 * not read, so their exchange is of no consequence; the memcg is read when this says it is there.
 * Remove when the baseline is 7.2.
 */
const volatile __u8 reclaim_passes_memcg __weak = 0;

/*
 * mark_victim(int pid) became (task, uid) in 6.9 ("mm: update mark_victim tracepoints fields") and
 * in 6.1-stable. Where only a pid is passed, the event has only a pid. Remove when the baseline is
 * 6.9.
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
 * mm_struct.flags was a word until it became a bitmap of its own type in 6.18 ("mm: convert core mm
 * to mm_flags_*() accessors" and what follows it). Bits kept their numbers. Remove when the
 * baseline is 6.18.
 */
struct mm_struct___bitmap_flags {
  struct {
    unsigned long __mm_flags[1];
  } flags;
} __attribute__((preserve_access_index));

/*
 * Arrays of arrays are one flat array in BTF until 7.2's, which has them nested; the two
 * are incompatible to CO-RE, even where only the offset is asked for. Remove when the baseline
 * is 7.2.
 */
struct mem_cgroup_per_node___nested {
  struct {
    struct {
      long nr_pages[1][1][1];
    } lrugen;
  } lruvec;
  unsigned long lru_zone_size[1][1];
} __attribute__((preserve_access_index));

/* Argument `i` of an fentry or fexit program as a number: what the verifier knows about its type is
 * lost on purpose (see above). */
#define ARG(ctx, i)                                                            \
  ({                                                                           \
    __u64 arg_value = 0;                                                       \
    bpf_probe_read_kernel(&arg_value, sizeof(arg_value), &((__u64*)(ctx))[i]); \
    arg_value;                                                                 \
  })

#endif
