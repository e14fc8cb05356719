// SPDX-License-Identifier: Apache-2.0
// The memory limit of a cgroup as the OOM killer computes it: oc->totalpages (mm/memcontrol.c
// mem_cgroup_get_max).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/process.h"

namespace forestall::sources {

struct MemcgLimits {
  std::optional<Bytes> memory;  // memory.max, memory.limit_in_bytes; nullopt: unlimited
  // Swap only (v2 memory.swap.max). Nullopt: unlimited, or not accounted.
  std::optional<Bytes> swap;
  // Memory plus swap (v1 memory.memsw.limit_in_bytes). Nullopt: as above.
  std::optional<Bytes> memory_and_swap;
  // The cgroup's own on v1, vm.swappiness on v2. 0: the kernel leaves swap out of its sum.
  std::int64_t swappiness = 0;
};

// Limits of the group itself, not of its ancestors: the OOM killer uses those of the cgroup that
// reached its limit. `proc` is the root of procfs.
[[nodiscard]] Result<MemcgLimits> read_memcg_limits(const kernel::CgroupTree& tree,
                                                    const kernel::CgroupDir& cgroup,
                                                    const std::string& proc);

// Nullopt: unlimited, so this cgroup alone never runs out of memory. `swap_pages`: all swap of the
// node.
[[nodiscard]] std::optional<Pages> memcg_total_pages(const MemcgLimits& limits, Pages swap_pages,
                                                     std::int64_t page_bytes);

}  // namespace forestall::sources
