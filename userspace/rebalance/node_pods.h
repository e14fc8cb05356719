// SPDX-License-Identifier: Apache-2.0
// The loop of the plugins that decide on each pod of a node by itself.
#pragma once

#include <string>
#include <vector>

#include "rebalance/session.h"

namespace forestall::rebalance {

// Evicts those of the pods that pass the filters of the profile, are in scope, and for which
// `reason(pod)` returns a text. All count as considered. False: the total limit is reached.
template <typename ReasonOf>
bool evict_each(PluginSession& session, const PodScope& scope, const std::vector<PodIndex>& pods,
                ReasonOf reason_of) {
  for (const PodIndex each : pods) session.consider(each);
  // All pods are filtered before the first one is evicted.
  std::vector<std::pair<PodIndex, std::string>> evictable;
  for (const PodIndex each : pods) {
    if (!in_scope(scope, session.view().pod(each))) continue;
    std::string reason = reason_of(each);
    if (reason.empty() || !session.evictor().filter(each) ||
        !session.evictor().pre_eviction_filter(each)) {
      continue;
    }
    evictable.emplace_back(each, std::move(reason));
  }
  for (auto& [pod, reason] : evictable) {
    const EvictResult result = session.evict(pod, std::move(reason));
    if (result == EvictResult::total_limit) return false;
    if (result == EvictResult::node_limit) return true;
  }
  return true;
}

}  // namespace forestall::rebalance
