// SPDX-License-Identifier: Apache-2.0
// The time between SIGTERM and SIGKILL of a victim, and whether it is granted
// (pkg/kubelet/eviction/eviction_manager.go synchronize, evictPod).
#pragma once

#include "base/clock.h"
#include "model/config.h"
#include "model/threshold.h"
#include "model/workload.h"

namespace forestall::policy {

// Hard: Compat::hard_grace. Soft: the smaller of evictionMaxPodGracePeriod and the pod's own grace
// period, or only the maximum if the pod has none or Compat::soft_grace_is_lesser is off. A
// negative maximum is passed on unchanged and kills at once. Without
// Compat::negative_grace_as_given the pod's own period is used instead, 30 s if it has none.
[[nodiscard]] Duration eviction_grace(const Config& config, const Threshold& threshold,
                                      const Workload& victim);

// Whether SIGKILL skips that grace: for hard thresholds on memory and process IDs, where a grace
// would let the node run out first (Compat::hard_at_once).
[[nodiscard]] bool kills_at_once(const Config& config, const Threshold& threshold);

}  // namespace forestall::policy
