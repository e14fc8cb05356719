// SPDX-License-Identifier: Apache-2.0
// The policy: a fold over observations. No clock, no descriptor, no thread, no log; the same
// function serves the agent, `replay`, `rank`, fuzzing and the benchmarks.
//
// One step is one pass of kubelet's eviction manager (kubelet.md §3, eviction_manager.go
// synchronize) on event time: what it waits for inside its pass, reclaim and statistics, is asked
// for here and taken up in a later step.
#pragma once

#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

struct Step {
  State state;
  Decision decision;
};

// Decides on one observation. Deterministic: equal arguments give equal results, whatever the
// order of the workloads in the observation. At most one kill for thresholds per step; when several
// subjects are in need, the next step (on an observation that lists this kill) takes the next one.
// A threshold that has to wait, for a kill, for reclaim or for a newer reading, does not hold up
// the others.
//
// After `inspect` the pass is not over: asked again with what was missing, on the same state or on
// the one returned, the same readings count as new.
[[nodiscard]] Step step(const Config& config, const State& state, const Observation& observation);

// For a decision whose action is `inspect`: whose workloads to read before asking again, as
// Observer::add_workloads() takes it: the path of the only subject in need, empty for all of them.
[[nodiscard]] std::string_view inspection_subject(const Decision& decision);

// Where every threshold on memory lies for the wake sources, given the last observation. Subjects
// whose signal could not be computed have no line. A soft threshold has one until it is met: from
// then on its grace period is what is waited for, and a line that is crossed for long would keep a
// polling source at its shortest interval for nothing. So with one that evicts nobody.
[[nodiscard]] std::vector<Line> lines(const Config& config, const Observation& observation);

}  // namespace forestall::policy
