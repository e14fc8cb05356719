// SPDX-License-Identifier: Apache-2.0
#include "cluster/background_evictions.h"

#include <optional>
#include <string_view>
#include <utility>

namespace forestall::cluster {

bool is_evacuation(const kubernetes::ApiStatus& status) {
  constexpr int kTooManyRequests = 429;
  constexpr std::string_view kWords = "Eviction triggered evacuation";
  return status.code == kTooManyRequests && status.message.find(kWords) != std::string::npos;
}

void BackgroundEvictions::assume(const std::string& uid, MonotonicTime now) {
  pods_.try_emplace(uid, BackgroundEviction{now + kAssumedLongest});
}

void BackgroundEvictions::mark(rebalance::Snapshot& snapshot, MonotonicTime now) {
  std::unordered_map<std::string, BackgroundEviction> present;
  for (rebalance::ClusterPod& pod : snapshot.pods) {
    // The descheduler ignores what has ended as well: it would always count in the limits.
    if (!pod.background_allowed || !rebalance::is_live(pod)) continue;
    std::string uid(pod.uid);
    const auto known = pods_.find(uid);
    // Without the annotation it is unknown whether the eviction ended. If the webhook removed it,
    // the eviction may be requested again.
    const bool assumed =
        known != pods_.end() && !known->second.was_in_progress && now < known->second.assumed_until;
    if (!pod.background_in_progress && !assumed) continue;
    BackgroundEviction& kept = present[std::move(uid)];
    if (known != pods_.end()) kept = known->second;
    kept.was_in_progress = pod.background_in_progress;
    pod.evicted_in_background = true;
  }
  pods_ = std::move(present);
}

}  // namespace forestall::cluster
