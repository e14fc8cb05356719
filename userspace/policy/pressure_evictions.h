// SPDX-License-Identifier: Apache-2.0
// Pods of containers that stay under memory pressure at their own limit (KEP-5986, stage 2), after
// policy/container_pressure.h.
//
// They come after thresholds, which decide while the node is short, and before rulesets. One pod in
// a step, the first of Observation::pressed that may be killed: the stage evict grants the grace of
// a soft eviction, and kill none, also to a pod whose grace is running. Config::kill_limit holds
// back further ones. A container that was read more than 5 s before the observation is left alone.
#pragma once

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::policy {

// Changes the decision to a kill, or to `inspect` if the workloads are needed; else not at all.
// REQUIRES: it is neither.
void evict_for_pressure(const Config& config, const Observation& observation, Decision& decision);

}  // namespace forestall::policy
