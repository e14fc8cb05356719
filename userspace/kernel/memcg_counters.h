// SPDX-License-Identifier: Apache-2.0
// Which counters of a memory cgroup count anonymous and shared memory.
//
// From 6.10 on the counters are in an order of the kernel's own (mem_cgroup_stats_index of
// mm/memcontrol.c), which is data, not type information, and locked-down kernels hide it. So the
// order is found by trying: this process takes some pages, and the counter that rises by exactly as
// many is the one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace forestall::kernel {

struct MemcgCounters {
  std::optional<std::int32_t> anon;
  std::optional<std::int32_t> shmem;
};

// Replaces `counters` by those of this process' memory cgroup, in pages, in the kernel's order;
// empty: unknown. It may be the part of this CPU. Takes no memory if `counters` has room: what it
// takes would be counted, too.
using ReadMemcgCounters = std::function<void(std::vector<std::int64_t>& counters)>;

[[nodiscard]] MemcgCounters find_memcg_counters(const ReadMemcgCounters& read);

}  // namespace forestall::kernel
