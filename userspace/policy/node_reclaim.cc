// SPDX-License-Identifier: Apache-2.0
#include "policy/node_reclaim.h"

#include <algorithm>

#include "policy/quantity_sum.h"

namespace forestall::policy {
namespace {

bool clear(const Evidence& evidence) {
  Quantity bound = evidence.limit;
  if (const auto& min_reclaim = evidence.threshold.min_reclaim) {
    bound = sum(bound, min_reclaim->of(evidence.capacity));
  }
  return decimal(evidence.available) >= bound;
}

}  // namespace

std::vector<ReclaimStep> reclaim_steps(Signal signal, std::optional<FilesystemLayout> layout) {
  const auto filesystem = filesystem_of(signal);
  if (!filesystem || !layout) return {};
  switch (*layout) {
    case FilesystemLayout::single: break;
    case FilesystemLayout::imagefs:
      // Kubelet's documentation mentions dead pods here; its code does nothing for nodefs.
      if (*filesystem == Filesystem::nodefs) return {};
      break;
    case FilesystemLayout::split:
      if (*filesystem == Filesystem::imagefs) return {ReclaimStep::unused_images};
      return {ReclaimStep::dead_containers};
  }
  return {ReclaimStep::dead_containers, ReclaimStep::unused_images};
}

std::optional<State::Reclaim> taken_up(const std::optional<State::Reclaim>& before,
                                       ReclaimState now) {
  if (!before || now == ReclaimState::unavailable) return std::nullopt;
  State::Reclaim reclaim = *before;
  reclaim.done = reclaim.done || now == ReclaimState::done;
  return reclaim;
}

bool sufficed(const Config& config, const Evidence& asker, std::span<const Evidence> evidence) {
  if (!config.compat.reclaim_must_clear_all) return clear(asker);
  // A watched cgroup near its own limit is not one of kubelet's thresholds.
  return std::all_of(evidence.begin(), evidence.end(), [](const Evidence& one) {
    return is_of_watched_cgroup(one.threshold.signal) || clear(one);
  });
}

}  // namespace forestall::policy
