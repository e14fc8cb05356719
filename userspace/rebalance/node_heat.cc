// SPDX-License-Identifier: Apache-2.0
#include "rebalance/node_heat.h"

#include <string_view>
#include <unordered_map>

#include "rebalance/simulation.h"

namespace forestall::rebalance {
namespace {

struct NodeMemory {
  std::optional<Nanos> used;
  std::optional<Nanos> reported_capacity;
};

// The last sample of each node, else its last report. The report of an agent that died stays in the
// API server.
std::unordered_map<std::string_view, NodeMemory> memory_of_nodes(const Snapshot& state) {
  std::unordered_map<std::string_view, NodeMemory> nodes;
  for (const NodeReport& each : state.reports) {
    if (!is_current(each.time_ns, state.taken_ns)) continue;
    nodes[each.node] = {.used = each.working_set, .reported_capacity = each.capacity};
  }
  for (const MetricsSample& each : state.node_metrics) {
    if (!is_current(each, state.taken_ns)) continue;
    if (const auto memory = measured(each, kMemory)) nodes[each.name].used = memory;
  }
  return nodes;
}

NodeHeat heat_of(const Node& node, const NodeMemory& memory) {
  Nanos capacity = node.capacity.of(kMemory);
  if (capacity <= 0) capacity = node.allocatable.of(kMemory);
  if (capacity <= 0) capacity = memory.reported_capacity.value_or(0);
  if (!memory.used || capacity <= 0) return NodeHeat::unknown;
  const double available = to_double(capacity) - to_double(*memory.used);
  return available < kHotShare * to_double(capacity) ? NodeHeat::hot : NodeHeat::cool;
}

}  // namespace

std::vector<NodeHeat> heat_of_nodes(const Snapshot& state, const TraceOverlay& overlay) {
  const auto memory = memory_of_nodes(state);
  std::vector<NodeHeat> nodes;
  nodes.reserve(state.nodes.size());
  for (const Node& each : state.nodes) {
    const auto found = memory.find(each.name);
    const bool measured = found != memory.end() && !overlay.is_unknown(each.name);
    nodes.push_back(measured ? heat_of(each, found->second) : NodeHeat::unknown);
  }
  return nodes;
}

HotCount count_hot(const std::vector<NodeHeat>& nodes) {
  HotCount count{.hot = 0};
  for (const NodeHeat each : nodes) {
    if (each == NodeHeat::unknown) ++count.unknown;
    if (each == NodeHeat::hot) ++*count.hot;
  }
  if (count.unknown == nodes.size()) count.hot.reset();
  return count;
}

}  // namespace forestall::rebalance
