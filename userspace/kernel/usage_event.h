// SPDX-License-Identifier: Apache-2.0
// The cgroup v1 threshold on memory.usage_in_bytes: an eventfd that the kernel signals when usage
// crosses a value in either direction (mm/memcontrol-v1.c __mem_cgroup_threshold).
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::kernel {

// The two files of one cgroup that a registration needs.
struct UsageEventFiles {
  UniqueFd usage;    // memory.usage_in_bytes
  UniqueFd control;  // cgroup.event_control
};
[[nodiscard]] Result<UsageEventFiles> open_usage_event_files(const CgroupDir& cgroup);

// Registers a threshold, which lasts until the returned non-blocking eventfd is closed. There is no
// event if usage is above `line` already. Blocks for an RCU grace period: 24 to 36 ms measured on
// 6.18. ENODEV: the cgroup was removed.
[[nodiscard]] Result<UniqueFd> register_usage_event(const UsageEventFiles& files, Bytes line);

}  // namespace forestall::kernel
