// SPDX-License-Identifier: Apache-2.0
// Pods of containers that stay under memory pressure at their own limit (KEP-5986, stage 2), after
// policy/container_pressure.h.
//
// They come after thresholds, and before rulesets. A threshold on memory that is met decides alone,
// also while it waits. One pod in a step, the first of Observation::pressed that may be killed: the
// stage evict grants the grace of a soft eviction, and kill none, also to a pod whose grace is
// running. Config::kill_limit holds back further ones; graces that run count. A container that was
// read more than 5 s before the observation is left alone, and one whose workload was killed since
// its pressure began: the processes that are there now may be calm.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::policy {

// Changes the decision to a kill, or to `inspect` if the workloads are needed; else not at all.
// REQUIRES: it is neither.
void evict_for_pressure(const Config& config, const Observation& observation, Decision& decision);

// A container whose pod cannot be evicted for now.
struct PressureRefusal {
  std::string subject;
  std::string result;  // why, for a person

  friend bool operator==(const PressureRefusal&, const PressureRefusal&) = default;
};

// Of `observation.pressed`. Those that only wait, for a threshold or for the victim of `decision`,
// are not among them. None without workloads.
[[nodiscard]] std::vector<PressureRefusal> pressure_refusals(const Config& config,
                                                             const Observation& observation,
                                                             const Decision& decision);

}  // namespace forestall::policy
