// SPDX-License-Identifier: Apache-2.0
// The policy: a fold over observations. No clock, no descriptor, no thread, no log; the same
// function serves the agent, `replay`, `rank`, fuzzing and the benchmarks.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"

namespace forestall::policy {

// What one step hands to the next.
struct State {
  // Thresholds (by index in Config::thresholds, and subject) that were driving in the last step;
  // minimum reclaim counts for these only (kubelet.md §3 steps 5 and 9).
  struct Driving {
    std::size_t threshold = 0;
    CgroupId cgroup;
    friend bool operator==(const Driving&, const Driving&) = default;
  };
  std::vector<Driving> driving;

  friend bool operator==(const State&, const State&) = default;
};

struct Step {
  State state;
  Decision decision;
};

// Decides on one observation. Deterministic: equal arguments give equal results, whatever the
// order of the workloads in the observation.
[[nodiscard]] Step step(const Config& config, const State& state, const Observation& observation);

// Where every threshold lies for the wake sources, given the last observation. Subjects whose
// signal could not be computed have no line.
[[nodiscard]] std::vector<Line> lines(const Config& config, const Observation& observation);

}  // namespace forestall::policy
