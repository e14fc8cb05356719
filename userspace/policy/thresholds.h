// SPDX-License-Identifier: Apache-2.0
// Which thresholds are met, which of them drive, and the order in which they are acted on.
//
// The rules are kubelet's (pkg/kubelet/eviction/eviction_manager.go synchronize) with three
// additions:
// - Credit: memory that is being released counts as available for a new action, but not for the end
//   of a series, so that a minimum reclaim outlives the steps taken while a victim exits.
// - Watched cgroups, each a separate subject.
// - A signal that could not be read leaves the state of its thresholds unchanged. Kubelet reads all
//   signals or none, and then ends its pass without an effect.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/conditions.h"
#include "policy/state.h"

namespace forestall::policy {

// A threshold that drives, ignoring credit.
struct Crossing {
  ThresholdId id;
  std::size_t evidence = 0;  // index into Assessment::evidence
  bool covered = false;      // memory that is being released will satisfy it
  bool newer = true;         // the last step did not act on its reading
  // It is no longer met, but requested node-level reclaim, which has finished since.
  bool resumed = false;
};

struct Assessment {
  bool computed = false;            // whether there was a reading for any threshold
  std::vector<Evidence> evidence;   // met ones first, else in the order of for_each_subject()
  std::vector<Crossing> crossings;  // in the order in which they are acted on
  Pressure pressure{};
  State state;  // the next one, except its conditions and `cleanup_until`
};

// While nothing is met and nothing was driving, allocates only the evidence, once the thresholds on
// containerfs are derived.
[[nodiscard]] Assessment assess(const Config& config, const State& state,
                                const Observation& observation);

}  // namespace forestall::policy
