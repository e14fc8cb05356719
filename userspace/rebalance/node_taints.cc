// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingNodeTaints. NoExecute is the business of the taint manager and never counts.
#include <algorithm>
#include <string>
#include <vector>

#include "rebalance/node_fit.h"
#include "rebalance/node_pods.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

// Whether the list names the taint, by its key or as key=value.
bool names(const std::vector<std::string>& list, const Taint& taint) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& each) {
    if (each == taint.key) return true;
    return !taint.value.empty() && each.size() == taint.key.size() + 1 + taint.value.size() &&
           each.starts_with(taint.key) && each[taint.key.size()] == '=' &&
           each.ends_with(taint.value);
  });
}

bool counts(const NodeTaintsArgs& args, const Taint& taint) {
  const bool effect =
      taint.effect == TaintEffect::no_schedule ||
      (args.include_prefer_no_schedule && taint.effect == TaintEffect::prefer_no_schedule);
  if (!effect || names(args.excluded, taint)) return false;
  return !args.included || names(*args.included, taint);
}

std::string taint_violation(const NodeTaintsArgs& args, const ClusterPod& pod, const Node& node) {
  for (const Taint& each : node.taints) {
    if (counts(args, each) && !tolerates(pod, each)) {
      return "the pod does not tolerate taint " + std::string(each.key);
    }
  }
  return "";
}

}  // namespace

void run_plugin(PluginSession& session, const NodeTaintsArgs& args) {
  const ClusterView& view = session.view();
  for (const NodeIndex node : session.nodes()) {
    const auto reason_of = [&](PodIndex pod) {
      return taint_violation(args, view.pod(pod), view.node(node));
    };
    if (!evict_each(session, args.scope, live_pods(view, node), reason_of)) return;
  }
}

}  // namespace forestall::rebalance
