// SPDX-License-Identifier: Apache-2.0
// A model of the scheduler for pods without a node: its predicates, then RoomFinder's scores.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

// Of a pod that terminates on the node, and whose request still counts there.
struct LeavingRequest {
  std::string_view node;
  Amounts request;
};

// The node of each pod of `waiting`, which are indexes in `state`; nothing: it fits none. Of
// equal nodes none is one that pods leave. Pods of higher priority are placed first. REQUIRES:
// `state` is sorted; these pods are live.
[[nodiscard]] std::vector<std::optional<NodeIndex>> place_pods(
    Snapshot state, std::span<const PodIndex> waiting, std::span<const LeavingRequest> leaving);

}  // namespace forestall::rebalance
