// SPDX-License-Identifier: Apache-2.0
#include "cluster/refused_pods.h"

#include <algorithm>

namespace forestall::cluster {

void RefusedPods::add(const std::string& uid, std::string_view answer, bool is_of_pod,
                      MonotonicTime now) {
  const auto known = pods_.find(uid);
  Duration lasts = kFirst;
  if (known != pods_.end() && !known->second.is_over(now)) {
    lasts = std::min<Duration>(known->second.lasts * (is_of_pod ? 2 : 1), kLongest);
  }
  if (known == pods_.end()) make_room(now);
  // An empty answer would mean that it was not refused.
  pods_[uid] = {answer.empty() ? "refused" : std::string(answer), now + lasts, lasts,
                now + 2 * lasts + memory_};
}

void RefusedPods::make_room(MonotonicTime now) {
  if (pods_.size() < kMax) return;
  std::erase_if(pods_, [now](const auto& each) { return each.second.is_over(now); });
  if (pods_.size() < kMax) return;
  pods_.erase(
      std::ranges::min_element(pods_, {}, [](const auto& each) { return each.second.remembered; }));
}

void RefusedPods::mark(rebalance::Snapshot& snapshot, MonotonicTime now) {
  std::erase_if(pods_, [now](const auto& each) { return each.second.is_over(now); });
  if (pods_.empty()) return;
  for (rebalance::ClusterPod& each : snapshot.pods) {
    const auto found = pods_.find(std::string(each.uid));
    if (found == pods_.end() || now >= found->second.until) continue;
    each.refused = snapshot.texts->keep(found->second.answer);
  }
}

}  // namespace forestall::cluster
