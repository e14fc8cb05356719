// SPDX-License-Identifier: Apache-2.0
#include "policy/lines.h"

#include <string>

#include "policy/saturating.h"
#include "policy/signals.h"
#include "policy/warning.h"

namespace forestall::policy {
namespace {

// No pre-ranking for a soft threshold, which starts a grace period, or for one that does not evict.
// None for own limits either: only the workload near its limit can be evicted, and hundreds that
// stay near theirs would displace the node from the few subjects that are pre-ranked.
Bytes margin_of(const Threshold& threshold, Bytes capacity) {
  const bool prepares = threshold.hard() && threshold.response == Response::evict;
  return prepares && !threshold.own_limits_of ? warning_margin(capacity) : Bytes{0};
}

bool swap_counts(const NodeSample& node) {
  return !node.swap_total || *node.swap_total > Bytes{0};
}

}  // namespace

std::vector<Line> lines(const Config& config, const Observation& observation) {
  std::vector<Line> lines;
  lines.reserve(config.thresholds.size() + observation.watched.size());
  // Derived thresholds are on filesystems, which have no usage lines.
  for_each_subject(config, observation,
                   [&](std::size_t, const Threshold& threshold, const Subject& subject,
                       const std::optional<SignalState>& signal) {
                     if (!signal || !signal->level) return;
                     const MemoryLevel& level = *signal->level;
                     const Bytes floor =
                         subtract(level.capacity, threshold.limit.of(signal->capacity).bytes());
                     const Bytes headroom = subtract(floor, level.used());
                     const bool waits = !threshold.hard() || threshold.response != Response::evict;
                     if (waits && headroom.count < 0) return;
                     // No counter shows all of the amount; the node's usage is the closest.
                     const bool by_meminfo = row_of(threshold.signal).watch == SignalWatch::meminfo;
                     if (by_meminfo && !observation.node.usage) return;
                     const Bytes usage = by_meminfo ? *observation.node.usage : level.usage;
                     const Bytes margin = margin_of(threshold, level.capacity);
                     lines.push_back({.signal = threshold.signal,
                                      .cgroup = subject.cgroup,
                                      .path = std::string(subject.path),
                                      .headroom = headroom,
                                      .usage_line = by_meminfo ? add(usage, headroom)
                                                               : add(floor, level.inactive_file),
                                      .floor_line = floor,
                                      .usage = usage,
                                      .capacity = level.capacity,
                                      // A dry run sets nothing, and memory.high at a soft threshold
                                      // would throttle for its whole grace period.
                                      .tune = threshold.tune && threshold.hard() && !config.dry_run,
                                      .with_swap = by_meminfo && swap_counts(observation.node),
                                      .margin = margin,
                                      .warning = next_warning(headroom, margin)});
                   });
  return lines;
}

}  // namespace forestall::policy
