// SPDX-License-Identifier: Apache-2.0
#include "cluster/recent_evictions.h"

#include <utility>

namespace forestall::cluster {

void RecentEvictions::add(const std::string& uid, std::int64_t wall_ns, MonotonicTime now) {
  pods_[uid] = {wall_ns, now + kLongest};
}

void RecentEvictions::mark(rebalance::Snapshot& snapshot, MonotonicTime now) {
  if (pods_.empty()) return;
  std::unordered_map<std::string, RecentEviction> unseen;
  for (rebalance::ClusterPod& pod : snapshot.pods) {
    const auto known = pods_.find(std::string(pod.uid));
    if (known == pods_.end() || pod.terminating || now >= known->second.until) continue;
    pod.terminating = true;
    pod.deleted_ns = known->second.wall_ns;
    unseen.insert(*known);
  }
  pods_ = std::move(unseen);
}

}  // namespace forestall::cluster
