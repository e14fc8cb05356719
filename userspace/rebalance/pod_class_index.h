// SPDX-License-Identifier: Apache-2.0
// Classes of pods: those of one namespace with the same labels, tolerations and placement, as the
// pods of a workload are. What rules decide for one of them, they decide for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "rebalance/snapshot.h"

namespace forestall::rebalance {

using PodClassId = std::uint32_t;

class PodClassIndex {
 public:
  // `snapshot` must outlive this object.
  explicit PodClassIndex(const Snapshot& snapshot);

  // Numbers count from 0, in the order in which the classes are first wanted.
  [[nodiscard]] PodClassId of(std::size_t pod) {
    if (known_[pod] == kUnknown) known_[pod] = intern(pod);
    return known_[pod];
  }

 private:
  static constexpr PodClassId kUnknown = std::numeric_limits<PodClassId>::max();
  // By the addresses of their texts, of which a snapshot has each once.
  struct SameClass {
    const Snapshot* snapshot;
    std::size_t operator()(std::size_t pod) const;        // hash
    bool operator()(std::size_t a, std::size_t b) const;  // whether both are of one class
  };

  PodClassId intern(std::size_t pod);

  std::vector<PodClassId> known_;  // by pod
  std::unordered_map<std::size_t, PodClassId, SameClass, SameClass> classes_;
};

}  // namespace forestall::rebalance
