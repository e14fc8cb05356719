/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A first value for what a callback of bpf_loop both branches on and changes for its next step.
 *
 * The verifier of Linux 6.1 (not that of 6.8) follows the callback only once, with the values
 * before the first step. If one is a constant 0, it removes a branch that only a later step takes,
 * even the check of an index. Corrected by "bpf: verify callbacks as if they are called unknown
 * number of times" of November 2023, which 6.1.y does not have.
 */
#ifndef FORESTALL_BPF_UNKNOWN_BPF_H
#define FORESTALL_BPF_UNKNOWN_BPF_H

#include "bpf/vmlinux/vmlinux.h"
/* These use the types of vmlinux.h. */
#include <bpf/bpf_helpers.h>

/* Nothing writes it. Writable, because the verifier uses the values of read-only data. */
__u32 never_written __weak;

static __always_inline __u32 unknown_zero(void) {
  return *(volatile __u32*)&never_written;
}

#endif
