// SPDX-License-Identifier: Apache-2.0
// Which nodes of a recorded state are hot, by what is measured of their memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rebalance/snapshot.h"
#include "rebalance/trace_overlay.h"

namespace forestall::rebalance {

enum class NodeHeat : std::uint8_t {
  unknown,  // its memory is not measured
  cool,
  hot,
};

// In the order of state.nodes. `overlay`: of the moves that the state has.
[[nodiscard]] std::vector<NodeHeat> heat_of_nodes(const Snapshot& state,
                                                  const TraceOverlay& overlay);

struct HotCount {
  std::optional<std::uint64_t> hot;  // nothing: no node is measured
  std::uint64_t unknown = 0;
};

[[nodiscard]] HotCount count_hot(const std::vector<NodeHeat>& nodes);

}  // namespace forestall::rebalance
