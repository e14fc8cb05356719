// SPDX-License-Identifier: Apache-2.0
#include "replay/last_seen.h"

#include <algorithm>

namespace forestall::replay {

void LastSeen::note(MonotonicTime at, const std::vector<WorkloadSample>& samples) {
  for (const WorkloadSample& sample : samples) {
    samples_.insert_or_assign(sample.workload.cgroup.inode, Seen{at, sample});
  }
}

void LastSeen::replace(MonotonicTime at, const std::vector<WorkloadSample>& samples) {
  samples_.clear();
  note(at, samples);
}

std::vector<WorkloadSample> LastSeen::at(MonotonicTime now) const {
  std::vector<WorkloadSample> samples;
  for (const auto& [inode, seen] : samples_) {
    if (now - seen.at <= kAgeMax) samples.push_back(seen.sample);
  }
  std::ranges::sort(samples, {}, [](const WorkloadSample& each) { return each.workload.cgroup; });
  return samples;
}

std::optional<Duration> LastSeen::age(CgroupId cgroup, MonotonicTime now) const {
  const auto found = samples_.find(cgroup.inode);
  if (found == samples_.end()) return std::nullopt;
  return now - found->second.at;
}

}  // namespace forestall::replay
