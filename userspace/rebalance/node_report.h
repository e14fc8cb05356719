// SPDX-License-Identifier: Apache-2.0
// What the agent of a node reports about its memory: the kind NodeReport of forestall.dev/v1alpha1.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rebalance/amounts.h"

namespace forestall::rebalance {

// A measurement that differs more from the time of a plan does not show the present.
inline constexpr std::int64_t kMeasurementAgeSeconds = 120;

[[nodiscard]] inline bool is_current(std::int64_t time_ns, std::int64_t now_ns) {
  constexpr Nanos kLongest = Nanos{kMeasurementAgeSeconds} * kNanosPerUnit;
  const Nanos age = Nanos{now_ns} - time_ns;
  return age <= kLongest && age >= -kLongest;
}

// An eviction threshold of the node, and how far away it is.
struct ReportedThreshold {
  std::string_view signal;
  Nanos headroom = 0;  // bytes until it is crossed; not above 0: it is crossed
  // Bytes per second by which the headroom falls; may be negative; nothing: unknown.
  std::optional<Nanos> growth;
  std::optional<double> seconds;  // until it is crossed at this growth; nothing: not at all
};

struct ReportedPod {
  std::string_view pod_namespace;
  std::string_view name;
  std::string_view uid;  // empty: not given
  Nanos working_set = 0;
  std::optional<Nanos> growth;  // bytes per second; nothing: unknown
};

struct NodeReport {
  std::string_view node;
  std::int64_t time_ns = 0;  // CLOCK_REALTIME
  std::optional<Nanos> capacity;
  std::optional<Nanos> usage;
  std::optional<Nanos> working_set;
  // Percent of the time since the report before in which some or all tasks stalled for memory.
  std::optional<double> some;
  std::optional<double> full;
  std::optional<std::int64_t> evictions;  // in the last hour
  std::optional<std::int64_t> oom_kills;
  std::vector<ReportedThreshold> thresholds;
  std::vector<ReportedPod> pods;  // those with the largest working sets or growth
};

}  // namespace forestall::rebalance
