/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPUs' parts of a per-CPU counter. Each object that includes this file runs learn_cpus() once.
 */
#ifndef FORESTALL_BPF_CPUS_BPF_H
#define FORESTALL_BPF_CPUS_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/abi/task.h"

/* Userspace sets the numbers of the possible CPUs; learn_cpus replaces them by the offsets of their
 * per-CPU areas. cpu_count 0: unknown, and nothing is summed. */
#define MAX_CPUS ABI_TASK_CPUS
__u64 cpu_offsets[MAX_CPUS];
__u32 cpu_count;

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} ruler SEC(".maps");

/* A store and a load turn a typed pointer into a number for the verifier. */
volatile __u64 as_number;

static long learn_cpu(__u32 i, void* ruler_pointer) {
  __u64 base = *(__u64*)ruler_pointer;
  __u32 key = 0;

  i &= MAX_CPUS - 1; /* proves the bound to the verifier */
  as_number = (__u64)bpf_map_lookup_percpu_elem(&ruler, &key, (__u32)cpu_offsets[i]);
  cpu_offsets[i] = as_number ? as_number - base : 0;
  return 0;
}

static __always_inline __u64 ruler_base(void) {
  __u64 base = 0;

  as_number = (__u64)&ruler;
  bpf_probe_read_kernel(&base, sizeof(base),
                        (void*)as_number + bpf_core_field_offset(struct bpf_array, pptrs));
  return base;
}

/* Of the per-CPU area of the CPU that runs this; 0: unknown. */
static __always_inline __u64 this_cpu_offset(void) {
  __u64 base = ruler_base();
  __u32 key = 0;

  as_number = (__u64)bpf_map_lookup_elem(&ruler, &key);
  return base && as_number ? as_number - base : 0;
}

/*
 * Run once by userspace. The kernel's table __per_cpu_offset is data, and locked-down kernels hide
 * data symbols (CONFIG_KALLSYMS_ALL). A per-CPU map serves instead: the difference between its
 * per-CPU pointer and the address on each CPU is the CPU's offset.
 * Returns 0; 1: the pointer was not found.
 */
SEC("syscall")
int learn_cpus(void* ctx) {
  __u64 base = ruler_base();

  if (!base) return 1;
  bpf_loop(cpu_count, learn_cpu, &base, 0);
  return 0;
}

#endif
