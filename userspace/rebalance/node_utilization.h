// SPDX-License-Identifier: Apache-2.0
// What LowNodeUtilization and HighNodeUtilization share: the usage of nodes against thresholds, and
// the loop that moves pods from source nodes until there is no more room at the destinations.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rebalance/session.h"
#include "rebalance/usage.h"

namespace forestall::rebalance {

struct NodeUtilization {
  NodeIndex node = 0;
  Amounts usage;
  Percents percent;
  Thresholds low;
  Thresholds high;
  Amounts cap;  // of every tracked resource: what may be used
};

// Usage and percentages of the session's nodes; without thresholds.
[[nodiscard]] Result<std::vector<NodeUtilization>> measure(PluginSession& session,
                                                           UsageSource& source);

// Sets the caps by `high`: truncate((percent * 0.01) * capacity) in doubles, in this order; the
// full capacity without a threshold, and 0 without capacity. If exact-caps is corrected, the
// product is rounded to a millionth first.
void set_caps(const ClusterView& view, const std::vector<std::string>& tracked,
              NodeUtilization& usage);

// The whole list, classified.
[[nodiscard]] ClassifiedNode classified(const NodeUtilization& usage, NodeClass node_class);

// Whether `a` uses less than `b`: of cpu in thousandths, memory in bytes, pods and all others in
// units, added up. If node-order is corrected: by the mean of the percentages.
[[nodiscard]] bool uses_less(const ClusterView& view, const NodeUtilization& a,
                             const NodeUtilization& b);

// The resources whose room decides: all that are tracked. If unlisted-resources is corrected: those
// with a threshold.
[[nodiscard]] std::vector<std::string> deciding_resources(const ClusterView& view,
                                                          const UsageSource& source,
                                                          const Thresholds& thresholds);

struct MoveRules {
  std::vector<std::string> resources;     // deciding_resources()
  std::vector<NodeUtilization*> sources;  // in order
  std::vector<NodeUtilization*> destinations;
  // Destinations of the pods for which none of those has room. A source may be one until it is
  // processed, and is not processed once it is the destination of a pod.
  std::vector<NodeUtilization*> further_destinations;
  const NamespaceRule* namespaces = nullptr;  // whose pods may leave
  std::optional<std::uint64_t> evictions_per_node;
  bool relieves_sources = false;  // of what they use above their caps; else they are emptied
  // Pods leave a source only if all that have to leave it can, and no pod of this plan moved there.
  bool drains_whole_nodes = false;
  // Also checked for each pod of a source.
  std::function<bool(const ClusterPod&)> pod_filter;
  // Whether the source is still one, before and after each eviction.
  std::function<bool(const NodeUtilization&)> source_filter;
  std::function<std::string(const NodeUtilization&)> reason;
};

void move_pods(PluginSession& session, UsageSource& source, const MoveRules& rules);

}  // namespace forestall::rebalance
