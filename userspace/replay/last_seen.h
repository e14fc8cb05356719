// SPDX-License-Identifier: Apache-2.0
// The last sample of each workload. The agent reads workloads only when its own thresholds are met;
// another policy may need them earlier.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "model/workload.h"

namespace forestall::replay {

class LastSeen {
 public:
  // Adds the samples of some workloads.
  void note(MonotonicTime at, const std::vector<WorkloadSample>& samples);
  // Replaces all samples.
  void replace(MonotonicTime at, const std::vector<WorkloadSample>& samples);

  [[nodiscard]] bool empty() const { return samples_.empty(); }
  // All samples, ordered by cgroup id. Samples older than kAgeMax are left out.
  [[nodiscard]] std::vector<WorkloadSample> at(MonotonicTime now) const;
  // Time since the workload was read; nothing: never.
  [[nodiscard]] std::optional<Duration> age(CgroupId cgroup, MonotonicTime now) const;

  static constexpr Duration kAgeMax = std::chrono::minutes(5);

 private:
  struct Seen {
    MonotonicTime at;
    WorkloadSample sample;
  };
  std::unordered_map<std::uint64_t, Seen> samples_;  // by inode
};

}  // namespace forestall::replay
