// SPDX-License-Identifier: Apache-2.0
// Moves that a simulated policy made, laid over the recorded states of a cluster that follow: a
// moved pod is on its destination, with its usage, until the recorded pod ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rebalance/snapshot.h"

namespace forestall::rebalance {

class TraceOverlay {
 public:
  // Changes a recorded state: moved pods are where they were moved, and their usage with them, in
  // samples and reports. A pod that was evicted and has no replacement is absent. Forgets the pods
  // that the state does not have, or has as ended. The snapshot stays sorted.
  void apply(Snapshot& state);

  // The pod, as apply() left it, was evicted at the time of its state. `node`: of its replacement;
  // empty: none yet. Returns when the pod was moved before; nothing: never.
  std::optional<std::int64_t> move(const ClusterPod& pod, std::string_view node,
                                   std::int64_t now_ns);
  // The replacement of a pod without a node is now on `node`.
  void place(const ClusterPod& pod, std::string_view node);

  // Replacements without a node: they did not fit a node yet.
  [[nodiscard]] bool waits(const ClusterPod& pod) const;
  [[nodiscard]] std::uint64_t waiting() const;
  // Since the last apply(): nodes that a pod left, or that it is on, whose usage is not measured.
  [[nodiscard]] bool is_unknown(std::string_view node) const {
    return unknown_.contains(std::string(node));
  }

 private:
  struct MovedPod {
    std::string node;  // empty: none yet
    std::int64_t moved_ns = 0;
    std::uint64_t moves = 0;
    bool gone = false;  // nothing replaces it
    bool seen = false;  // in the last state
    // Restarts of the recorded containers before the move.
    std::vector<std::int32_t> restarts;
    std::vector<std::int32_t> init_restarts;
  };

  static void replace(ClusterPod& pod, const MovedPod& moved, StringPool& texts);

  std::unordered_map<std::string, MovedPod> moved_;  // by the recorded pod
  std::unordered_set<std::string> unknown_;
};

}  // namespace forestall::rebalance
