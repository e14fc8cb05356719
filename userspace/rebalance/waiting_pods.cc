// SPDX-License-Identifier: Apache-2.0
#include "rebalance/waiting_pods.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "rebalance/room_finder.h"

namespace forestall::rebalance {
namespace {

// A view moves pods from node to node. It is behind the names of all nodes, which have no tilde.
constexpr std::string_view kWaitingNode = "~waiting";

// Of equal nodes the scheduler selects any. Here none goes back to where it was.
Amounts slightly_more(Amounts request) {
  request.at(kCpu) += kNanosPerMilli;
  request.at(kMemory) += kNanosPerUnit;
  return request;
}

}  // namespace

std::vector<std::optional<NodeIndex>> place_pods(Snapshot state, std::span<const PodIndex> waiting,
                                                 std::span<const LeavingRequest> leaving) {
  std::vector<NodeIndex> nodes;
  for (NodeIndex i = 0; i < state.nodes.size(); ++i) {
    if (state.nodes[i].ready) nodes.push_back(i);
  }
  Node& apart = state.nodes.emplace_back();
  apart.name = kWaitingNode;
  apart.unschedulable = true;
  for (const PodIndex each : waiting) state.pods[each].node = kWaitingNode;
  ClusterView view(state, Corrections::all());
  for (const LeavingRequest& each : leaving) {
    if (const auto node = view.find_node(each.node)) view.book(*node, slightly_more(each.request));
  }
  std::vector<std::size_t> order(waiting.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t each) {
    return state.pods[waiting[each]].priority.value_or(0);
  });
  RoomFinder finder(view);
  const Rooms rooms{.nodes = nodes, .outlives_plugin = true};
  std::vector<std::optional<NodeIndex>> places(waiting.size());
  for (const std::size_t each : order) {
    places[each] = finder.find(waiting[each], rooms);
    if (places[each]) view.move(waiting[each], *places[each]);
  }
  return places;
}

}  // namespace forestall::rebalance
