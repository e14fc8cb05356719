/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of stalls: those that are open, by thread, and the sums, by cgroup. */
#ifndef FORESTALL_BPF_STALLS_BPF_H
#define FORESTALL_BPF_STALLS_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* After vmlinux.h, whose types they use. */
#include <bpf/bpf_helpers.h>

#include "bpf/abi/stall.h"

/* Preallocated: an entry is made in the middle of reclaim, where nothing should be allocated. One
 * thread has at most one of each kind. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 8192);
  __type(key, struct abi_open_key);
  __type(value, struct abi_open_stall);
} open_stalls __weak SEC(".maps");

/* Key: cgroup id, 0 for the node. Not preallocated, because per-CPU values of all cgroups that
 * might ever stall are a lot and few ever do. Entries go with their cgroup (cgroups.bpf.c). */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 8192);
  __type(key, __u64);
  __type(value, struct abi_stall);
} stalls __weak SEC(".maps");

static const struct abi_stall no_stall;

#endif
