// SPDX-License-Identifier: Apache-2.0
// Evictions of earlier plans that a watch may not have reported yet: to the next plan, their pods
// terminate. Else it would count them as running, and evict others in their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

class RecentEvictions {
 public:
  // A watch that is later is detected as broken. If the pod still runs, its eviction had no effect.
  static constexpr Duration kLongest = std::chrono::minutes(3);

  // The pod was evicted, or may have been. `wall_ns`: CLOCK_REALTIME.
  void add(const std::string& uid, std::int64_t wall_ns, MonotonicTime now);
  // Marks their pods as terminating. Forgets what the snapshot shows.
  void mark(rebalance::Snapshot& snapshot, MonotonicTime now);
  [[nodiscard]] std::size_t size() const { return pods_.size(); }

 private:
  struct RecentEviction {
    std::int64_t wall_ns = 0;
    MonotonicTime until{};
  };
  std::unordered_map<std::string, RecentEviction> pods_;  // by UID
};

}  // namespace forestall::cluster
