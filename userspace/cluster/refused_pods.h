// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// Pods that the API server refused to evict lately. A plan counts them as refused, as if the server
// had answered so again: else they would use up the limits of each plan, and no other pod would be
// evicted.
class RefusedPods {
 public:
  static constexpr Duration kFirst = std::chrono::minutes(10);
  // A pod that is refused again is remembered for twice the time. So a tenant with many such pods
  // takes fewer and fewer requests.
  static constexpr Duration kLongest = std::chrono::hours(6);
  static constexpr std::size_t kMax = 10'000;

  // `interval`: from a plan to the next one. A refusal is remembered for two more of them after its
  // time, so that the time of a pod grows also if it is shorter than the interval.
  explicit RefusedPods(Duration interval = Duration::zero()) : memory_(2 * interval) {}

  // `is_of_pod`: the server refused this pod, so that the time grows. Else the server had an error,
  // which need not be about the pod.
  void add(const std::string& uid, std::string_view answer, bool is_of_pod, MonotonicTime now);
  // Sets rebalance::ClusterPod::refused.
  void mark(rebalance::Snapshot& snapshot, MonotonicTime now);
  [[nodiscard]] std::size_t size() const { return pods_.size(); }

 private:
  struct Refusal {
    std::string answer;
    MonotonicTime until{};
    Duration lasts{};
    MonotonicTime remembered{};

    // Whether the next refusal begins anew.
    [[nodiscard]] bool is_over(MonotonicTime now) const { return now >= remembered; }
  };

  void make_room(MonotonicTime now);

  Duration memory_;
  std::unordered_map<std::string, Refusal> pods_;  // by UID
};

}  // namespace forestall::cluster
