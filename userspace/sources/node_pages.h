// SPDX-License-Identifier: Apache-2.0
// NUMA nodes: which have memory, and how much of it the OOM killer counts.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/process.h"

namespace forestall::sources {

// Sum of node_present_pages() (include/linux/mmzone.h) over `nodes`, from the text of
// /proc/zoneinfo: the sum of `present` of a node's zones. MemTotal of
// /sys/devices/system/node/nodeN/meminfo is different: it is what the page allocator manages. A
// node that does not exist counts as 0. Fails if the text names no node.
[[nodiscard]] Result<Pages> present_pages(std::string_view zoneinfo, NodeMask nodes);

struct ZoneSums {
  Pages low = 0;      // low watermarks: kswapd reclaims while a zone has less free
  Pages managed = 0;  // memory

  friend bool operator==(const ZoneSums&, const ZoneSums&) = default;
};

// /proc/zoneinfo: sums over all zones with memory. An error if there is none.
[[nodiscard]] Result<ZoneSums> zone_sums(std::string_view zoneinfo);

// node_states[N_MEMORY]. `sys` is the root of /sys/devices/system. ENOENT without NUMA.
[[nodiscard]] Result<NodeMask> read_nodes_with_memory(const std::string& sys);

}  // namespace forestall::sources
