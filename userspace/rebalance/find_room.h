// SPDX-License-Identifier: Apache-2.0
// Where the replacement of an evicted pod would go.
#pragma once

#include <optional>
#include <span>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

// Of the nodes that the pod fits, its own excluded: the one with the fewest pods of its first
// owner, then the one whose fuller resource (cpu or memory, by requests) is the least used with the
// pod; then the first. As the scheduler's default scores, in short. Nothing: it fits none.
[[nodiscard]] std::optional<NodeIndex> find_room(const ClusterView& view, PodIndex pod,
                                                 std::span<const NodeIndex> among);

}  // namespace forestall::rebalance
