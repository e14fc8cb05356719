// SPDX-License-Identifier: Apache-2.0
// The kernel's scoring: mm/oom_kill.c oom_badness() and fs/proc/base.c proc_oom_score().
//
// points = rss (file + anon + shmem) + swap + page tables + oom_score_adj * (totalpages / 1000), in
// pages, with integer division as in the kernel; LONG_MIN for a process that cannot be selected.
// Differences in older kernels:
// - until 4.16 processes with CAP_SYS_ADMIN had 3 % of their points removed (d46078b28889 "mm, oom:
//   remove 3% bonus for CAP_SYS_ADMIN processes");
// - until 5.8 a selectable process had at least one point, so that below zero all were equal and
//   the walk decided, and oom_score was points * 1000 / totalpages (9066e5cfb73c "mm, oom: make the
//   calculation of oom badness more accurate");
// - f1a7941243c1 (6.2) made the rss counters per-CPU ones, of which oom_badness() read only the
//   shared part, until 5898aa8f9a0b "mm: fix OOM killer inaccuracy on large many-core systems"
//   (2026) summed them up.
// The first two are not reproduced: Forestall requires newer kernels. The third concerns how the
// counters are read, not the formula. A probe detects how the running kernel counts; its version is
// never used (kernel/task_scan.h).
#pragma once

#include <optional>

#include "model/process.h"

namespace forestall::policy {

// Nullopt: the kernel cannot select it (oom_badness is LONG_MIN). REQUIRES: amounts below 2^53
// pages, an adjustment from -1000 to 1000.
[[nodiscard]] std::optional<Pages> badness(const ProcessSample& process, Pages total_pages);

// The value of /proc/PID/oom_score, with RAM + swap as `total_pages`: (1000 + points * 1000 /
// totalpages) * 2 / 3, divisions toward zero; 0 for a process that cannot be selected.
[[nodiscard]] std::int64_t oom_score(std::optional<Pages> points, Pages total_pages);

}  // namespace forestall::policy
