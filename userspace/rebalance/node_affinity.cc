// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingNodeAffinity. Fitting counts whether nodeFit is set or not.
#include <algorithm>
#include <string>
#include <vector>

#include "rebalance/node_fit.h"
#include "rebalance/node_pods.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";

// The sum of the weights of the preferences that the node fulfils.
std::int64_t weight_of(const ClusterPod& pod, const Node& node) {
  std::int64_t weight = 0;
  for (const PreferredTerm& each : pod.placement->preferred_nodes) {
    if (matches(each.preference, node.name, node.labels)) weight += each.weight;
  }
  return weight;
}

// Why the pod violates what its node affinity requires; empty: it does not.
std::string required_violation(PluginSession& session, PodIndex index, NodeIndex node) {
  const ClusterPod& pod = session.view().pod(index);
  if (!pod.placement || !pod.placement->required_nodes) return "";
  if (matches_node(pod, session.view().node(node))) return "";
  if (!fits_any(session.view(), index, session.nodes())) return "";
  return "the node does not match the required node affinity";
}

// Why another node is preferred. That node need not fit; some node has to. If corrected, only nodes
// that fit are preferred.
std::string preferred_violation(PluginSession& session, PodIndex index, NodeIndex node) {
  const ClusterPod& pod = session.view().pod(index);
  if (!pod.placement || pod.placement->preferred_nodes.empty()) return "";
  std::int64_t best = 0;
  const bool must_fit = session.view().corrects(Correction::preferred_node);
  for (const NodeIndex each : session.nodes()) {
    const std::int64_t weight = weight_of(pod, session.view().node(each));
    if (weight > best && (!must_fit || fits(session.view(), index, each))) best = weight;
  }
  const std::int64_t own = weight_of(pod, session.view().node(node));
  if (best <= own || !fits_any(session.view(), index, session.nodes())) return "";
  return "a node has preference " + std::to_string(best) + ", this one " + std::to_string(own);
}

}  // namespace

void run_plugin(PluginSession& session, const NodeAffinityArgs& args) {
  for (const std::string& type : args.types) {
    // Another type is logged by the descheduler and skipped.
    if (type != kRequired && type != kPreferred) continue;
    for (const NodeIndex node : session.nodes()) {
      const auto reason_of = [&](PodIndex pod) -> std::string {
        if (!session.view().summary(pod).has_node_terms) return "";
        return type == kRequired ? required_violation(session, pod, node)
                                 : preferred_violation(session, pod, node);
      };
      if (!evict_each(session, args.scope, live_pods(session.view(), node), reason_of)) return;
    }
  }
}

}  // namespace forestall::rebalance
