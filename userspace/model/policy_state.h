// SPDX-License-Identifier: Apache-2.0
// What one step of the policy hands to the next: everything kubelet's eviction manager remembers
// from pass to pass (pkg/kubelet/eviction/eviction_manager.go managerImpl), per subject because we
// watch cgroups as well as the node.
//
// Plain values, and so that a recording can begin in the middle: whoever replays it from there
// needs to know what the policy remembered.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "model/condition.h"
#include "model/filesystem.h"
#include "model/ids.h"
#include "model/threshold.h"

namespace forestall {

// A threshold in force, by its index, and whose amount it is held against.
struct ThresholdId {
  std::size_t threshold = 0;
  CgroupId cgroup;  // inode 0: the node
  friend auto operator<=>(const ThresholdId&, const ThresholdId&) = default;
};

// A threshold that follows from the configuration and the layout (policy/containerfs.h).
struct DerivedThreshold {
  // Its index: that of the configured threshold it replaces, else behind the configured ones.
  std::size_t index = 0;
  bool replaces = false;
  Threshold threshold;

  friend bool operator==(const DerivedThreshold&, const DerivedThreshold&) = default;
};

// When each signal was read that the last step looked at. For watched cgroups only those with a
// threshold met are kept: the same reading cannot be met afterwards if it was not before.
struct ReadingTimes {
  struct Watched {
    CgroupId cgroup;
    MonotonicTime at;
    friend bool operator==(const Watched&, const Watched&) = default;
  };
  std::array<std::optional<MonotonicTime>, kSignals.size()> node;  // by signal
  std::vector<Watched> watched;

  friend bool operator==(const ReadingTimes&, const ReadingTimes&) = default;
};

// It belongs to one Config: thresholds are named by their index. See policy::reconfigured(). Cheap
// to copy: while nothing is met it owns no memory of its own.
struct PolicyState {
  struct Met {
    ThresholdId id;
    MonotonicTime since;
    friend bool operator==(const Met&, const Met&) = default;
  };
  // What is known of one node condition.
  struct Reported {
    std::optional<MonotonicTime> last_met;
    bool status = false;
    friend bool operator==(const Reported&, const Reported&) = default;
  };
  // Node-level reclaim that was asked for and whose pass is not over.
  struct Reclaim {
    ThresholdId id;  // for whom
    bool done = false;
    friend bool operator==(const Reclaim&, const Reclaim&) = default;
  };

  std::optional<MonotonicTime> at;         // of the last step; nothing: there was none
  std::optional<FilesystemLayout> layout;  // as found first; it stays
  // Null until the layout is known.
  std::shared_ptr<const std::vector<DerivedThreshold>> derived;
  // Since when each threshold is met without a break, whatever its grace period; credit left aside
  // (kubelet.md §3 step 6). Ascending, each once.
  std::vector<Met> met;
  // Those of them whose grace period was over; minimum reclaim counts for these only (steps 5
  // and 9). Ascending, each once.
  std::vector<ThresholdId> driving;
  ReadingTimes read;
  std::array<Reported, kConditions.size()> conditions;  // in the order of kConditions
  std::optional<Reclaim> reclaim;
  // When a wait for the cleanup of a victim is over, or the end of its grace comes too near to be
  // brought forward; the first of them.
  std::optional<MonotonicTime> cleanup_until;

  // What was derived is compared by value.
  friend bool operator==(const PolicyState& a, const PolicyState& b);
};

}  // namespace forestall
