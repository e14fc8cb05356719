// SPDX-License-Identifier: Apache-2.0
// A threshold: acts if the available amount of a signal is below a limit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/quantity.h"
#include "model/signal.h"

namespace forestall {

// An amount in the signal's unit (bytes, inodes, tasks), either absolute or as a fraction of the
// signal's capacity. Fractions are 32-bit floats because kubelet's are and the amounts must be
// equal (pkg/kubelet/eviction/api/types.go ThresholdValue, GetThresholdQuantity).
struct Limit {
  std::optional<Quantity> quantity;  // exactly one of the two is set
  std::optional<float> fraction;

  static Limit bytes(Bytes b) { return {binary(b.count), std::nullopt}; }
  static Limit share(float f) { return {std::nullopt, f}; }
  // The amount for a given capacity. As in kubelet, a fraction truncates to a whole number and
  // prints in binary format, whatever the unit.
  [[nodiscard]] Quantity of(std::int64_t capacity) const;

  friend bool operator==(const Limit&, const Limit&) = default;
};

// Classes of workloads with thresholds on their own limits: pods by the QoS class that their
// cgroup's path shows, and the cgroups that workload rules name.
enum class WorkloadClass : std::uint8_t { guaranteed, burstable, best_effort, other };
inline constexpr std::array kWorkloadClasses{WorkloadClass::guaranteed, WorkloadClass::burstable,
                                             WorkloadClass::best_effort, WorkloadClass::other};

// What the agent does once a threshold is met.
enum class Response : std::uint8_t {
  evict,  // evict a workload
  warn,   // report each crossing once
  slow,   // report it, and throttle the cgroup by memory.high until it recedes (v1: as warn)
};

[[nodiscard]] std::string_view to_string(WorkloadClass of);
[[nodiscard]] std::optional<WorkloadClass> parse_workload_class(std::string_view text);
[[nodiscard]] std::string_view to_string(Response response);
[[nodiscard]] std::optional<Response> parse_response(std::string_view text);

struct Threshold {
  Signal signal = Signal::memory_available;
  // Only for cgroup_memory_available: glob of the watched cgroups' paths in the memory hierarchy.
  std::string cgroup;
  Limit limit;                       // met if available < limit (strictly)
  Duration grace{0};                 // 0 makes it a hard threshold
  std::optional<Limit> min_reclaim;  // once met, stays met until available >= limit + this
  // Only for cgroup_memory_available: capacity to use instead of the cgroup's own limit.
  std::optional<Bytes> capacity;
  // Only for cgroup_memory_available: whether the agent may set memory.high as a tripwire.
  bool tune = false;
  // Only for cgroup_memory_available: every workload of this class and each of its containers is
  // watched, each against a limit of its own. `cgroup` is empty then.
  std::optional<WorkloadClass> own_limits_of = std::nullopt;
  Response response = Response::evict;

  [[nodiscard]] bool hard() const { return grace == Duration::zero(); }
  friend bool operator==(const Threshold&, const Threshold&) = default;
};

}  // namespace forestall
