// SPDX-License-Identifier: Apache-2.0
// The kernel's scoring, mirrored: mm/oom_kill.c oom_badness() and fs/proc/base.c proc_oom_score().
//
// points = rss (file + anon + shmem) + swap + page tables + oom_score_adj * (totalpages / 1000),
// in pages, with integer division as in the kernel; LONG_MIN for what cannot be chosen.
// History, for who reads old kernels' numbers:
// - until 4.16 whoever had CAP_SYS_ADMIN was let off 3 % of its points (d46078b28889 "mm, oom:
//   remove 3% bonus for CAP_SYS_ADMIN processes");
// - until 5.8 what could be chosen had one point at least, so that below zero all were equal and
//   the walk decided, and oom_score was points * 1000 / totalpages (9066e5cfb73c "mm, oom: make the
//   calculation of oom badness more accurate");
// - f1a7941243c1 (6.2) made the rss counters per-CPU ones, of which oom_badness() read the shared
//   part only, until 5898aa8f9a0b "mm: fix OOM killer inaccuracy on large many-core systems" (2026)
//   summed them up.
// The first two are not mirrored: Forestall's kernels are newer. The third is a matter of reading
// the counters, not of the formula; which way the running kernel counts is found out, never taken
// from its version (kernel/task_scan.h).
#pragma once

#include <optional>

#include "model/process.h"

namespace forestall::policy {

// Nothing: the kernel cannot choose it (oom_badness is LONG_MIN). REQUIRES: amounts that a machine
// can have (below 2^53 pages), an adjustment from -1000 to 1000.
[[nodiscard]] std::optional<Pages> badness(const ProcessSample& process, Pages total_pages);

// What /proc/PID/oom_score shows for it, with RAM + swap as `total_pages`:
// (1000 + points * 1000 / totalpages) * 2 / 3, divisions toward zero; 0 for what cannot be chosen.
[[nodiscard]] std::int64_t oom_score(std::optional<Pages> points, Pages total_pages);

}  // namespace forestall::policy
