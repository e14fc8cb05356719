// SPDX-License-Identifier: Apache-2.0
// LowNodeUtilization.
#include <algorithm>

#include "rebalance/node_utilization.h"
#include "rebalance/percent_text.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

double clamped(double percent) {
  return std::clamp(percent, 0.0, 100.0);
}

// The mean over all nodes that have a percentage of the resource.
double mean_percent(const std::vector<NodeUtilization>& nodes, const std::string& resource) {
  double sum = 0;
  std::size_t count = 0;
  for (const NodeUtilization& each : nodes) {
    const auto found = each.percent.find(resource);
    if (found == each.percent.end()) continue;
    sum += found->second;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

void set_thresholds(std::vector<NodeUtilization>& nodes, const LowNodeUtilizationArgs& args) {
  Thresholds low = args.thresholds;
  Thresholds high = args.target_thresholds;
  if (args.deviation) {
    for (auto& [resource, percent] : low) {
      const double mean = mean_percent(nodes, resource);
      percent = clamped(mean - percent);
      high[resource] = clamped(mean + high[resource]);
    }
  }
  for (NodeUtilization& each : nodes) {
    each.low = low;
    each.high = high;
  }
}

bool is_underutilized(const ClusterView& view, const NodeUtilization& node) {
  if (view.node(node.node).unschedulable) return false;
  return std::all_of(node.low.begin(), node.low.end(), [&](const auto& threshold) {
    const auto found = node.percent.find(threshold.first);
    return (found == node.percent.end() ? 0 : found->second) <= threshold.second;
  });
}

bool is_overutilized(const NodeUtilization& node) {
  return std::any_of(node.high.begin(), node.high.end(), [&](const auto& threshold) {
    const auto found = node.percent.find(threshold.first);
    return found != node.percent.end() && found->second > threshold.second;
  });
}

std::string reason_of(const NodeUtilization& node) {
  std::string text = "node is overutilized:";
  for (const auto& [resource, target] : node.high) {
    const auto found = node.percent.find(resource);
    if (found == node.percent.end() || found->second <= target) continue;
    text += text.ends_with(':') ? " " : ", ";
    text += resource + " " + percent_text(found->second) + " above " + percent_text(target);
  }
  return text;
}

// Why there is nothing to do; empty: there is. A numberOfNodes above 0 also holds if nodes below
// their targets are destinations.
std::string nothing_to_do(const MoveRules& rules, std::size_t all, std::int64_t least) {
  const std::size_t low = rules.destinations.size();
  if (low == 0 && (rules.further_destinations.empty() || least > 0)) {
    return "no node is underutilized";
  }
  if (low > 0 && static_cast<std::int64_t>(low) <= least) {
    return "number of underutilized nodes is less or equal than NumberOfNodes";
  }
  if (low == all) return "all nodes are underutilized";
  if (rules.sources.empty()) return "all nodes are under target utilization";
  return "";
}

}  // namespace

void run_plugin(PluginSession& session, const LowNodeUtilizationArgs& args) {
  const std::vector<Booking> none;  // requests that are booked are in the view
  const bool by_requests = args.metrics == MetricsSource::requests;
  UsageSource source(session.view(), args.metrics, tracked_resources(args.thresholds, args.metrics),
                     by_requests ? none : session.bookings(), args.query);
  auto measured = measure(session, source);
  if (!measured) {
    session.run().error = measured.error().message;
    return;
  }
  std::vector<NodeUtilization>& nodes = *measured;
  set_thresholds(nodes, args);
  MoveRules rules;
  for (NodeUtilization& each : nodes) {
    set_caps(session.view(), source.tracked(), each);
    NodeClass node_class = NodeClass::appropriate;
    if (is_underutilized(session.view(), each)) {
      node_class = NodeClass::underutilized;
      rules.destinations.push_back(&each);
    } else if (is_overutilized(each)) {
      node_class = NodeClass::overutilized;
      rules.sources.push_back(&each);
    } else if (session.view().corrects(Correction::destinations_below_target) &&
               !session.view().node(each.node).unschedulable) {
      rules.further_destinations.push_back(&each);
    }
    session.run().nodes.push_back(classified(each, node_class));
  }
  session.run().outcome = nothing_to_do(rules, nodes.size(), args.number_of_nodes);
  if (!session.run().outcome.empty()) return;
  std::stable_sort(rules.sources.begin(), rules.sources.end(),
                   [&](const NodeUtilization* a, const NodeUtilization* b) {
                     return uses_less(session.view(), *b, *a);
                   });
  rules.resources = deciding_resources(session.view(), source, args.target_thresholds);
  rules.namespaces = &args.namespaces;
  rules.evictions_per_node = args.evictions_per_node;
  rules.relieves_sources = true;
  rules.source_filter = [&](const NodeUtilization& node) {
    return std::any_of(rules.resources.begin(), rules.resources.end(),
                       [&](const std::string& resource) {
                         return node.usage.of(resource) > node.cap.of(resource);
                       });
  };
  rules.reason = reason_of;
  move_pods(session, source, rules);
}

}  // namespace forestall::rebalance
