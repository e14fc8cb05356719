// SPDX-License-Identifier: Apache-2.0
// The descheduler's feature gate EvictionsInBackground: a webhook may refuse an eviction and move
// the pod by itself, such as a virtual machine that migrates first. The pod allows it with an
// annotation, and the webhook answers with the words "Eviction triggered evacuation".
//
// Such an eviction counts in the limits of every plan, and is not requested again, until the pod is
// gone or the webhook gives it up.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "kubernetes/api_status.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// Whether the answer to an eviction means that the pod is moved in the background.
[[nodiscard]] bool is_evacuation(const kubernetes::ApiStatus& status);

class BackgroundEvictions {
 public:
  // For so long the pod may be without the annotation that its eviction is in progress.
  static constexpr Duration kAssumedLongest = std::chrono::minutes(10);

  // The server answered so to the eviction of the pod.
  void assume(const std::string& uid, MonotonicTime now);
  // Sets rebalance::ClusterPod::evicted_in_background, and forgets pods that are not in the
  // snapshot.
  void mark(rebalance::Snapshot& snapshot, MonotonicTime now);
  [[nodiscard]] std::size_t size() const { return pods_.size(); }

 private:
  struct BackgroundEviction {
    MonotonicTime assumed_until{};
    bool was_in_progress = false;  // by its annotation
  };
  std::unordered_map<std::string, BackgroundEviction> pods_;  // by UID
};

}  // namespace forestall::cluster
