// SPDX-License-Identifier: Apache-2.0
#include "replay/watched_samples.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "kernel/cgroup_tree.h"

namespace forestall::replay {
namespace {

bool watches(const Threshold& threshold, const Threshold& sampled_for, const std::string& path) {
  if (threshold.own_limits_of || sampled_for.own_limits_of) {
    return threshold.own_limits_of == sampled_for.own_limits_of;
  }
  return kernel::glob_matches(threshold.cgroup, path);
}

}  // namespace

void assign_watched(const Config& recorded, const Config& here,
                    std::vector<CgroupSample>& watched) {
  if (recorded.thresholds == here.thresholds) return;
  const std::vector<CgroupSample> samples = std::exchange(watched, {});
  for (std::size_t i = 0; i < here.thresholds.size(); ++i) {
    if (!is_of_watched_cgroup(here.thresholds[i].signal)) continue;
    std::set<std::string_view> added;  // several recorded thresholds may watch one cgroup
    for (const CgroupSample& sample : samples) {
      if (sample.threshold >= recorded.thresholds.size()) continue;
      const Threshold& sampled_for = recorded.thresholds[sample.threshold];
      if (!watches(here.thresholds[i], sampled_for, sample.path)) continue;
      if (!added.insert(sample.path).second) continue;
      watched.push_back(sample);
      watched.back().threshold = i;
    }
  }
}

}  // namespace forestall::replay
