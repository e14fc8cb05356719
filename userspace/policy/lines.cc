// SPDX-License-Identifier: Apache-2.0
// Computes lines: the positions of thresholds as values of a usage counter, with kubelet's formula
// (pkg/kubelet/eviction/memory_threshold_notifier.go UpdateThreshold).
#include <string>
#include <vector>

#include "policy/saturating.h"
#include "policy/signals.h"
#include "policy/step.h"
#include "policy/warning.h"

namespace forestall::policy {
namespace {

// Crossing a soft threshold begins a grace period, which needs no preparation, and a threshold that
// does not evict needs none either. Own limits have no margin: only the workload near its limit can
// be evicted, and hundreds near theirs would displace the node among the few pre-ranked subjects.
Bytes margin_of(const Threshold& threshold, Bytes capacity) {
  const bool prepares = threshold.hard() && threshold.response == Response::evict;
  return prepares && !threshold.own_limits_of ? warning_margin(capacity) : Bytes{0};
}

}  // namespace

std::vector<Line> lines(const Config& config, const Observation& observation) {
  std::vector<Line> lines;
  lines.reserve(config.thresholds.size() + observation.watched.size());
  // Derived thresholds are about filesystems, which have no lines.
  for_each_subject(config, nullptr, false, observation,
                   [&](std::size_t, const Threshold& threshold, const Subject& subject,
                       const std::optional<Reading>& reading) {
                     if (!reading || !reading->level) return;
                     const Level& level = *reading->level;
                     const Bytes floor =
                         subtract(level.capacity, threshold.limit.of(reading->capacity).bytes());
                     const Bytes headroom = subtract(floor, level.used());
                     const bool waits = !threshold.hard() || threshold.response != Response::evict;
                     if (waits && headroom.count < 0) return;
                     // No counter covers memory.untilOom; the node's usage is the nearest one.
                     const bool until_oom = threshold.signal == Signal::memory_until_oom;
                     if (until_oom && !observation.node.usage) return;
                     const Bytes usage = until_oom ? *observation.node.usage : level.usage;
                     const Bytes margin = margin_of(threshold, level.capacity);
                     lines.push_back({.signal = threshold.signal,
                                      .cgroup = subject.cgroup,
                                      .path = std::string(subject.path),
                                      .headroom = headroom,
                                      .usage_line = until_oom ? add(usage, headroom)
                                                              : add(floor, level.inactive_file),
                                      .floor_line = floor,
                                      .usage = usage,
                                      .capacity = level.capacity,
                                      // A dry run sets nothing, and memory.high at a soft threshold
                                      // would throttle through its whole grace period.
                                      .tune = threshold.tune && threshold.hard() && !config.dry_run,
                                      .margin = margin,
                                      .warning = next_warning(headroom, margin)});
                   });
  return lines;
}

}  // namespace forestall::policy
