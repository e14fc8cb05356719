// SPDX-License-Identifier: Apache-2.0
#include "rebalance/find_room.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "rebalance/node_fit.h"

namespace forestall::rebalance {
namespace {

std::ptrdiff_t siblings_on(const ClusterView& view, PodIndex pod, NodeIndex node) {
  const auto& owners = view.pod(pod).owners;
  if (owners.empty()) return 0;
  const auto is_sibling = [&](PodIndex each) {
    const auto& others = view.pod(each).owners;
    return is_live(view.pod(each)) && !others.empty() && others.front().uid == owners.front().uid;
  };
  const auto stays = [&](PodIndex each) { return is_sibling(each) && view.place_of(each) == node; };
  return std::ranges::count_if(view.pods_on(node), stays) +
         std::ranges::count_if(view.booked_on(node), is_sibling);
}

double share_used(const ClusterView& view, PodIndex pod, NodeIndex node,
                  std::string_view resource) {
  const Nanos all = view.node(node).allocatable.of(resource);
  const Nanos used = view.requests_on(node).of(resource) + view.pod(pod).request.of(resource);
  if (all <= 0) return std::numeric_limits<double>::max();
  return static_cast<double>(used) / static_cast<double>(all);
}

}  // namespace

std::optional<NodeIndex> find_room(const ClusterView& view, PodIndex pod,
                                   std::span<const NodeIndex> among) {
  std::optional<NodeIndex> best;
  std::tuple<std::ptrdiff_t, double, NodeIndex> best_key;
  for (const NodeIndex each : among) {
    if (view.node(each).name == view.pod(pod).node || !fits(view, pod, each)) continue;
    const double share =
        std::max(share_used(view, pod, each, kCpu), share_used(view, pod, each, kMemory));
    const std::tuple key(siblings_on(view, pod, each), share, each);
    if (best && best_key <= key) continue;
    best = each;
    best_key = key;
  }
  return best;
}

}  // namespace forestall::rebalance
