// SPDX-License-Identifier: Apache-2.0
// A threshold: act when a signal's available amount is below a limit.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/quantity.h"
#include "model/signal.h"

namespace forestall {

// An amount in the signal's unit (bytes, inodes, tasks), either absolute or as a fraction of the
// signal's capacity. Fractions are 32-bit floats because kubelet's are, and its amounts must come
// out equal (pkg/kubelet/eviction/api/types.go ThresholdValue, GetThresholdQuantity).
struct Limit {
  std::optional<Quantity> quantity;  // exactly one of the two is set
  std::optional<float> fraction;

  static Limit bytes(Bytes b) { return {binary(b.count), std::nullopt}; }
  static Limit share(float f) { return {std::nullopt, f}; }
  // The amount for a given capacity. A fraction truncates to a whole number and prints in binary
  // format, whatever the unit, as kubelet's does.
  [[nodiscard]] Quantity of(std::int64_t capacity) const;

  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Threshold {
  Signal signal = Signal::memory_available;
  // Only for cgroup_memory_available: glob of the watched cgroups' paths in the memory hierarchy.
  std::string cgroup;
  Limit limit;                       // met when available < limit (strictly)
  Duration grace{0};                 // 0 makes it a hard threshold
  std::optional<Limit> min_reclaim;  // once met, stays met until available >= limit + this
  // Only for cgroup_memory_available: capacity to use instead of the cgroup's own limit.
  std::optional<Bytes> capacity;
  // Only for cgroup_memory_available: whether the agent may set memory.high as a tripwire.
  bool tune = false;

  [[nodiscard]] bool hard() const { return grace == Duration::zero(); }
  friend bool operator==(const Threshold&, const Threshold&) = default;
};

}  // namespace forestall
