// SPDX-License-Identifier: Apache-2.0
// What a memory cgroup may use, as its OOM killer sees it: oc->totalpages
// (mm/memcontrol.c mem_cgroup_get_max).
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
  std::optional<Bytes> memory;  // memory.max, memory.limit_in_bytes; nothing: unlimited
  // Of swap alone (v2 memory.swap.max). Nothing: unlimited, or not accounted.
  std::optional<Bytes> swap;
  // Of memory and swap together (v1 memory.memsw.limit_in_bytes). The same.
  std::optional<Bytes> memory_and_swap;
  // Its own on v1, vm.swappiness on v2. 0: the kernel leaves swap out of its sum.
  std::int64_t swappiness = 0;
};

// Of the group itself, not of those above it: whose limit is reached, counts. `proc` is the root of
// procfs.
[[nodiscard]] Result<MemcgLimits> read_memcg_limits(const kernel::CgroupTree& tree,
                                                    const kernel::CgroupDir& cgroup,
                                                    const std::string& proc);

// Nothing: it is unlimited, and so is never out of memory by itself. `swap_pages` is all the
// node's swap.
[[nodiscard]] std::optional<Pages> memcg_total_pages(const MemcgLimits& limits, Pages swap_pages,
                                                     std::int64_t page_bytes);

}  // namespace forestall::sources
