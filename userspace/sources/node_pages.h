// SPDX-License-Identifier: Apache-2.0
// NUMA nodes: which have memory, and how much of it the OOM killer counts for them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/process.h"

namespace forestall::sources {

// Sum of node_present_pages() (include/linux/mmzone.h) over `nodes`, from the text of
// /proc/zoneinfo: a node's figure is the sum of its zones' `present`. Not MemTotal of
// /sys/devices/system/node/nodeN/meminfo, which is what the page allocator manages of it. A node
// that does not exist has none. An error if the text tells of no node at all.
[[nodiscard]] Result<Pages> present_pages(std::string_view zoneinfo, NodeMask nodes);

// node_states[N_MEMORY]. `sys` is the root of /sys/devices/system. ENOENT without NUMA.
[[nodiscard]] Result<NodeMask> read_nodes_with_memory(const std::string& sys);

}  // namespace forestall::sources
