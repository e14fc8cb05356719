// SPDX-License-Identifier: Apache-2.0
// Which thresholds are met, which of them drive, and in which order they are acted upon.
//
// The rules are kubelet's (kubelet.md §3 steps 4 to 10 and 13) with three additions. Credit:
// memory that is on its way counts as available when it comes to acting, but not when it comes to
// the end of a series, so that a minimum reclaim outlives the steps taken while a victim exits.
// Watched cgroups, each a subject of its own. And a signal that could not be read leaves everything
// about its thresholds as it was: kubelet, whose readings come all together or not at all, then
// ends its pass without a trace.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/conditions.h"
#include "policy/state.h"

namespace forestall::policy {

// A threshold that drives when credit is left aside.
struct Crossing {
  ThresholdId id;
  std::size_t evidence = 0;  // index into Assessment::evidence
  bool covered = false;      // memory on its way will satisfy it
  bool newer = true;         // its reading is not the one that the last step acted upon
  // It is not met any more, but asked for node-level reclaim, which is over since.
  bool resumed = false;
};

struct Assessment {
  bool computed = false;            // whether there was a reading for any threshold
  std::vector<Evidence> evidence;   // met ones first, else in the order of for_each_subject()
  std::vector<Crossing> crossings;  // in the order in which they are acted upon
  Pressure pressure{};
  State state;  // the next one but for its conditions and `cleanup_until`
};

// Allocates nothing but the evidence as long as nothing is met and nothing was driving, once the
// thresholds on containerfs are derived.
[[nodiscard]] Assessment assess(const Config& config, const State& state,
                                const Observation& observation);

}  // namespace forestall::policy
