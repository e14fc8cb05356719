/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which stalls PSI counts. Whoever includes it has COUNT_FAILURE(read), each object its own. */
#ifndef FORESTALL_BPF_PSI_BPF_H
#define FORESTALL_BPF_PSI_BPF_H

#include "bpf/lib/compat.bpf.h"

/* void psi_memstall_enter(unsigned long *flags) sets *flags to whether the task was in a stall
 * already; enter and leave of such a nested one count for nothing (kernel/sched/psi.c). Looked at
 * on return from enter and on entry to leave: in between, *flags is what the function left there.
 */
static __always_inline int psi_stall_nested(__u64 flags) {
  unsigned long was_in_memstall = 0;

  if (bpf_probe_read_kernel(&was_in_memstall, sizeof(was_in_memstall), (void*)flags)) {
    COUNT_FAILURE(read);
    return 1;
  }
  return was_in_memstall != 0;
}

#endif
