/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of stalls: open ones by thread, and sums by cgroup. */
#ifndef FORESTALL_BPF_STALLS_BPF_H
#define FORESTALL_BPF_STALLS_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_helpers.h>

#include "bpf/abi/stall.h"

/* Preallocated, because entries are made during reclaim, when nothing should be allocated. A thread
 * has at most one of each kind. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 8192);
  __type(key, struct abi_open_key);
  __type(value, struct abi_open_stall);
} open_stalls __weak SEC(".maps");

/* Key: cgroup id, 0 for the node. Not preallocated, because per-CPU values for every cgroup take
 * much memory and few cgroups ever stall. cgroups.bpf.c removes an entry with its cgroup. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 8192);
  __type(key, __u64);
  __type(value, struct abi_stall);
} stalls __weak SEC(".maps");

static const struct abi_stall no_stall;

#endif
