// SPDX-License-Identifier: Apache-2.0
// Lines: thresholds in the terms of a usage counter, kubelet's formula
// (pkg/kubelet/eviction/memory_threshold_notifier.go UpdateThreshold).
#include <string>
#include <vector>

#include "policy/saturating.h"
#include "policy/signals.h"
#include "policy/step.h"

namespace forestall::policy {

std::vector<Line> lines(const Config& config, const Observation& observation) {
  std::vector<Line> lines;
  lines.reserve(config.thresholds.size() + observation.watched.size());
  for_each_subject(
      config, observation,
      [&](std::size_t index, const Subject& subject, const std::optional<Level>& level) {
        const Threshold& threshold = config.thresholds[index];
        // A soft threshold does not act, and a line that is crossed for long would keep a polling
        // source at its shortest interval for nothing.
        if (!level || !threshold.hard()) return;
        const Bytes floor =
            subtract(level->capacity, threshold.limit.of(level->capacity.count).bytes());
        lines.push_back({.signal = threshold.signal,
                         .cgroup = subject.cgroup,
                         .path = std::string(subject.path),
                         .headroom = subtract(floor, level->used()),
                         .usage_line = add(floor, level->inactive_file),
                         .floor_line = floor,
                         .usage = level->usage,
                         .capacity = level->capacity,
                         // A dry run sets nothing.
                         .tune = threshold.tune && !config.dry_run});
      });
  return lines;
}

}  // namespace forestall::policy
