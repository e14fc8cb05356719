// SPDX-License-Identifier: Apache-2.0
// The kernel's scoring, mirrored: mm/oom_kill.c oom_badness() and fs/proc/base.c proc_oom_score().
//
// points = rss (file + anon + shmem) + swap + page tables + oom_score_adj * (totalpages / 1000),
// in pages, with integer division as in the kernel; LONG_MIN for what cannot be chosen.
// History, for who reads old kernels' numbers: until 4.17 root's processes had a bonus of 3 %
// (d46078b28889 "mm, oom: remove 3% bonus for CAP_SYS_ADMIN processes"); until 5.8 the points were
// a share of a thousand (9066e5cfb73c "mm, oom: make the calculation of oom badness more
// accurate"). Neither is mirrored: Forestall's kernels are newer.
#pragma once

#include <optional>

#include "model/process.h"

namespace forestall::policy {

// Nothing: the kernel cannot choose it (oom_badness is LONG_MIN).
[[nodiscard]] std::optional<Pages> badness(const ProcessSample& process, Pages total_pages);

// What /proc/PID/oom_score shows for it, with RAM + swap as `total_pages`:
// (1000 + points * 1000 / totalpages) * 2 / 3; 0 for what cannot be chosen.
[[nodiscard]] std::int64_t oom_score(std::optional<Pages> points, Pages total_pages);

}  // namespace forestall::policy
