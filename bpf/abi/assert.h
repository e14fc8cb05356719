/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A compile-time check that both C and C++ accept. */
#ifndef FORESTALL_BPF_ABI_ASSERT_H
#define FORESTALL_BPF_ABI_ASSERT_H

#ifdef __cplusplus
#define ABI_ASSERT static_assert
#else
#define ABI_ASSERT _Static_assert
#endif

#endif
