// SPDX-License-Identifier: Apache-2.0
// The policy: a fold over observations. No clock, no descriptor, no thread, no log; the same
// function serves the agent, `replay`, `rank`, fuzzing and the benchmarks.
#pragma once

#include <compare>
#include <cstddef>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"

namespace forestall::policy {

// What one step hands to the next. It belongs to one Config: thresholds are named by their index,
// so a reload begins with an empty State.
struct State {
  // Thresholds (by index in Config::thresholds, and subject) that were driving in the last step;
  // minimum reclaim counts for these only (kubelet.md §3 steps 5 and 9).
  struct Driving {
    std::size_t threshold = 0;
    CgroupId cgroup;
    friend auto operator<=>(const Driving&, const Driving&) = default;
  };
  std::vector<Driving> driving;  // ascending, each once

  friend bool operator==(const State&, const State&) = default;
};

struct Step {
  State state;
  Decision decision;
};

// Decides on one observation. Deterministic: equal arguments give equal results, whatever the
// order of the workloads in the observation. At most one kill per step; when several subjects are
// in need, the next step (on an observation that lists this kill) takes the next one.
[[nodiscard]] Step step(const Config& config, const State& state, const Observation& observation);

// For a decision whose action is `inspect`: whose workloads to read before asking again, as
// Observer::add_workloads() takes it: the path of the only subject in need, empty for all of them.
[[nodiscard]] std::string_view inspection_subject(const Decision& decision);

// Where every hard threshold lies for the wake sources, given the last observation. Subjects whose
// signal could not be computed have no line; soft thresholds have none as long as none acts.
[[nodiscard]] std::vector<Line> lines(const Config& config, const Observation& observation);

}  // namespace forestall::policy
