// SPDX-License-Identifier: Apache-2.0
// What workloads used when they were last read: the agent reads them only once its own thresholds
// are met, and another policy may ask before.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "model/workload.h"

namespace forestall::cli {

class LastSeen {
 public:
  // Some of them, as a decision needed them.
  void note(MonotonicTime at, const std::vector<WorkloadSample>& samples);
  // All there were.
  void replace(MonotonicTime at, const std::vector<WorkloadSample>& samples);

  [[nodiscard]] bool empty() const { return samples_.empty(); }
  // All of them, by id, so that the order says nothing. What was last read longer ago than
  // kAgeMax is gone for all that is known.
  [[nodiscard]] std::vector<WorkloadSample> at(MonotonicTime now) const;
  // How long ago a workload was read; nothing: never.
  [[nodiscard]] std::optional<Duration> age(CgroupId cgroup, MonotonicTime now) const;

  static constexpr Duration kAgeMax = std::chrono::minutes(5);

 private:
  struct Seen {
    MonotonicTime at;
    WorkloadSample sample;
  };
  std::unordered_map<std::uint64_t, Seen> samples_;  // by inode
};

}  // namespace forestall::cli
