// SPDX-License-Identifier: Apache-2.0
// The policy: a fold over observations. No clock, no descriptor, no thread, no log; the same
// function serves the agent, `replay`, `rank`, fuzzing and the benchmarks.
//
// One step is one pass of kubelet's eviction manager (pkg/kubelet/eviction/eviction_manager.go
// synchronize) in event time. Kubelet waits for reclaim and statistics inside its pass; a step
// requests them, and a later step continues with them.
#pragma once

#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

struct Step {
  State state;
  Decision decision;
};

// Decides on one observation. Deterministic: equal arguments give equal results, whatever the order
// of the workloads in the observation. At most one kill for thresholds per step; if several
// subjects are in need, the next step (on an observation that lists this kill) handles the next
// one. A threshold that has to wait, for a kill, for reclaim or for a newer reading, does not delay
// the others.
//
// With rule readings the step also evaluates the rulesets, after the thresholds (policy/rules.h).
//
// After `inspect` the pass continues: in the next step with the missing data, on the same state or
// on the returned one, the same readings count as new.
[[nodiscard]] Step step(const Config& config, const State& state, const Observation& observation);

// For a decision whose action is `inspect`: the workloads to read before the next step, as the
// subject of Observer::add_workloads(): the path of the only subject in need, empty for all
// workloads.
[[nodiscard]] std::string_view inspection_subject(const Decision& decision);

}  // namespace forestall::policy
