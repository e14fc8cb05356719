// SPDX-License-Identifier: Apache-2.0
// HighNodeUtilization.
#include <algorithm>

#include "rebalance/node_utilization.h"
#include "rebalance/percent_text.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

bool is_source(const NodeUtilization& node) {
  return std::all_of(node.low.begin(), node.low.end(), [&](const auto& threshold) {
    const auto found = node.percent.find(threshold.first);
    return (found == node.percent.end() ? 0 : found->second) <= threshold.second;
  });
}

std::string source_reason(const NodeUtilization& node) {
  std::string text = "node is underutilized:";
  for (const auto& [resource, threshold] : node.low) {
    const auto found = node.percent.find(resource);
    text += text.ends_with(':') ? " " : ", ";
    text += resource + " " + percent_text(found == node.percent.end() ? 0 : found->second) +
            " of at most " + percent_text(threshold);
  }
  return text;
}

// Why there is nothing to do; empty: there is.
std::string nothing_to_drain(const MoveRules& rules, std::size_t all, std::int64_t least) {
  const std::size_t sources = rules.sources.size();
  const bool one_into_another = sources > 1 && !rules.further_destinations.empty();
  if (sources == 0) return "no node is underutilized";
  if (static_cast<std::int64_t>(sources) <= least) {
    return "number of underutilized nodes is less or equal than NumberOfNodes";
  }
  if (one_into_another) return "";
  if (sources == all) return "all nodes are underutilized";
  if (rules.destinations.empty()) return "no node is available to schedule the pods";
  return "";
}

// Whether some container requests one of the resources, even if with 0.
bool requests_any(const ClusterPod& pod, const Thresholds& thresholds) {
  return std::any_of(pod.requested_resources.begin(), pod.requested_resources.end(),
                     [&](std::string_view each) { return thresholds.contains(each); });
}

// The least used first. If underutilized nodes may be destinations, those that are cordoned go
// before, because they are none.
void sort_sources(const ClusterView& view, std::vector<NodeUtilization*>& sources) {
  const bool cordoned_first = view.corrects(Correction::underutilized_destinations);
  std::ranges::stable_sort(sources, [&](const NodeUtilization* a, const NodeUtilization* b) {
    const bool a_stays = cordoned_first && !view.node(a->node).unschedulable;
    const bool b_stays = cordoned_first && !view.node(b->node).unschedulable;
    if (a_stays != b_stays) return b_stays;
    return uses_less(view, *a, *b);
  });
}

}  // namespace

void run_plugin(PluginSession& session, const HighNodeUtilizationArgs& args) {
  const std::vector<Booking> none;  // requests that are booked are in the view
  UsageSource source(session.view(), MetricsSource::requests,
                     tracked_resources(args.thresholds, MetricsSource::requests), none);
  auto measured = measure(session, source);
  if (!measured) {
    session.run().error = measured.error().message;
    return;
  }
  std::vector<NodeUtilization>& nodes = *measured;
  MoveRules rules;
  for (NodeUtilization& each : nodes) {
    each.low = args.thresholds;
    for (const auto& [resource, percent] : args.thresholds) each.high[resource] = 100;
    set_caps(session.view(), source.tracked(), each);
    NodeClass node_class = NodeClass::excluded;
    if (is_source(each)) {
      node_class = NodeClass::source;
      rules.sources.push_back(&each);
      if (session.view().corrects(Correction::underutilized_destinations) &&
          !session.view().node(each.node).unschedulable) {
        rules.further_destinations.push_back(&each);
      }
    } else if (!session.view().node(each.node).unschedulable) {
      node_class = NodeClass::destination;
      rules.destinations.push_back(&each);
    }
    session.run().nodes.push_back(classified(each, node_class));
  }
  session.run().outcome = nothing_to_drain(rules, nodes.size(), args.number_of_nodes);
  if (!session.run().outcome.empty()) return;
  sort_sources(session.view(), rules.sources);
  rules.resources = deciding_resources(session.view(), source, args.thresholds);
  rules.namespaces = &args.namespaces;
  if (args.only_thresholding_resources) {
    rules.pod_filter = [&](const ClusterPod& pod) { return requests_any(pod, args.thresholds); };
  }
  rules.drains_whole_nodes = session.view().corrects(Correction::whole_drains);
  rules.source_filter = [](const NodeUtilization&) { return true; };
  rules.reason = source_reason;
  move_pods(session, source, rules);
}

}  // namespace forestall::rebalance
