/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The stalls that PSI counts. The including file defines COUNT_FAILURE(read). */
#ifndef FORESTALL_BPF_PSI_BPF_H
#define FORESTALL_BPF_PSI_BPF_H

#include "bpf/lib/compat.bpf.h"

/* void psi_memstall_enter(unsigned long *flags) sets *flags to whether the task was already in a
 * stall; PSI ignores enter and leave of such a nested stall (kernel/sched/psi.c). The programs read
 * *flags on return from enter and on entry to leave, when the kernel does not change it. */
static __always_inline int psi_stall_nested(__u64 flags) {
  unsigned long was_in_memstall = 0;

  if (bpf_probe_read_kernel(&was_in_memstall, sizeof(was_in_memstall), (void*)flags)) {
    COUNT_FAILURE(read);
    return 1;
  }
  return was_in_memstall != 0;
}

#endif
