// SPDX-License-Identifier: Apache-2.0
// One write to memory.reclaim (v2).
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

// More than this takes about a second with slow swap.
inline constexpr Bytes kReclaimWriteMax = mib(32);

struct ReclaimWrite {
  Bytes reclaimed;
  // Less could be reclaimed than was requested (EAGAIN), and `reclaimed` is the decrease of usage;
  // 0 if usage cannot be read.
  bool fell_short = false;
};

// The kernel reclaims in this thread. ENOENT: kernels before 5.19 have no such file. REQUIRES:
// `amount` is above 0, and at most kReclaimWriteMax.
[[nodiscard]] Result<ReclaimWrite> write_reclaim(const kernel::CgroupDir& cgroup, Bytes amount);

}  // namespace forestall::actuators
