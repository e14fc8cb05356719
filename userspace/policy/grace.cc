// SPDX-License-Identifier: Apache-2.0
#include "policy/grace.h"

#include <algorithm>
#include <optional>

#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// core/v1 DefaultTerminationGracePeriodSeconds.
constexpr Duration kDefaultGrace = std::chrono::seconds(30);

}  // namespace

Duration eviction_grace(const Config& config, const Threshold& threshold, const Workload& victim) {
  if (threshold.hard()) return config.compat.hard_grace;
  const std::optional<Duration> own =
      victim.pod ? victim.pod->termination_grace : std::optional<Duration>();
  const Duration most = whole_seconds(config.max_pod_grace_seconds);
  if (most < Duration::zero() && !config.compat.negative_grace_as_given) {
    return own.value_or(kDefaultGrace);
  }
  if (!own || !config.compat.soft_grace_is_lesser) return most;
  return std::min(most, *own);
}

bool kills_at_once(const Config& config, const Threshold& threshold) {
  if (!config.compat.hard_at_once || !threshold.hard()) return false;
  const Resource resource = resource_of(threshold.signal);
  return resource == Resource::memory || resource == Resource::pids;
}

}  // namespace forestall::policy
