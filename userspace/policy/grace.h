// SPDX-License-Identifier: Apache-2.0
// How long a victim has between SIGTERM and SIGKILL (kubelet.md §5.3; eviction_manager.go
// synchronize, evictPod), and whether it is given that time.
#pragma once

#include "base/clock.h"
#include "model/config.h"
#include "model/threshold.h"
#include "model/workload.h"

namespace forestall::policy {

// Hard: Compat::hard_grace. Soft: the lesser of evictionMaxPodGracePeriod and the pod's own grace
// period, or the maximum alone where the pod has none or Compat::soft_grace_is_lesser is off. A
// negative maximum is passed on as it is and kills at once; unless that is given up
// (Compat::negative_grace_as_given), when the pod's own period counts, 30 s where it has none.
[[nodiscard]] Duration eviction_grace(const Config& config, const Threshold& threshold,
                                      const Workload& victim);

// Whether SIGKILL does not wait for that grace: for hard thresholds on what loses the race against
// the kernel otherwise, memory and process numbers (Compat::hard_at_once).
[[nodiscard]] bool kills_at_once(const Config& config, const Threshold& threshold);

}  // namespace forestall::policy
