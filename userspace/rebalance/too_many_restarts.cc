// SPDX-License-Identifier: Apache-2.0
// RemovePodsHavingTooManyRestarts.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rebalance/node_pods.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

std::int64_t restarts_of(const ClusterPod& pod, bool with_init) {
  std::int64_t restarts = 0;
  for (const ContainerState& each : pod.containers) restarts += each.restarts;
  if (!with_init) return restarts;
  for (const ContainerState& each : pod.init_containers) restarts += each.restarts;
  return restarts;
}

bool in_state(const TooManyRestartsArgs& args, const ClusterPod& pod) {
  const auto wanted = [&](std::string_view state) {
    return std::find(args.states.begin(), args.states.end(), state) != args.states.end();
  };
  const auto waits = [&](const ContainerState& each) {
    return each.waiting && wanted(each.reason);
  };
  if (args.states.empty() || wanted(pod.phase_text)) return true;
  if (std::any_of(pod.containers.begin(), pod.containers.end(), waits)) return true;
  return args.init_containers &&
         std::any_of(pod.init_containers.begin(), pod.init_containers.end(), waits);
}

}  // namespace

void run_plugin(PluginSession& session, const TooManyRestartsArgs& args) {
  const ClusterView& view = session.view();
  const auto restarts = [&](PodIndex pod) {
    return restarts_of(view.pod(pod), args.init_containers);
  };
  const auto reason_of = [&](PodIndex pod) -> std::string {
    if (restarts(pod) < args.threshold || !in_state(args, view.pod(pod))) return "";
    return std::to_string(restarts(pod)) + " restarts, the threshold is " +
           std::to_string(args.threshold);
  };
  for (const NodeIndex node : session.nodes()) {
    // Each pod is read once: they are far apart in memory.
    std::vector<std::pair<std::int64_t, PodIndex>> by_restarts;
    for (const PodIndex each : view.pods_on(node)) by_restarts.emplace_back(restarts(each), each);
    std::ranges::stable_sort(by_restarts, std::ranges::greater(),
                             [](const auto& each) { return each.first; });
    std::vector<PodIndex> pods;
    for (const auto& [count, pod] : by_restarts) pods.push_back(pod);
    if (!evict_each(session, args.scope, pods, reason_of)) return;
  }
}

}  // namespace forestall::rebalance
