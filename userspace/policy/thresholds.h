// SPDX-License-Identifier: Apache-2.0
// Which thresholds are met, which of them drive, and in which order they are acted upon.
//
// The rules are kubelet's (kubelet.md §3 steps 4, 5, 9, 13) with two additions. Credit: memory
// that is on its way counts as available when it comes to acting, but not when it comes to the
// end of a series, so that a minimum reclaim outlives the steps taken while a victim exits.
// And watched cgroups, each a subject of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/step.h"

namespace forestall::policy {

// A hard threshold that is met when credit is left aside.
struct Crossing {
  State::Driving id;
  std::size_t evidence = 0;  // index into Assessment::evidence
  bool covered = false;      // memory on its way will satisfy it
};

struct Assessment {
  std::vector<Evidence> evidence;       // met ones first, else in the order of for_each_subject()
  std::vector<Crossing> crossings;      // in the order in which they are acted upon
  std::vector<State::Driving> driving;  // what the next State carries, ascending
};

// Allocates nothing but the evidence as long as nothing is met and nothing was driving.
[[nodiscard]] Assessment assess(const Config& config, const State& state,
                                const Observation& observation);

}  // namespace forestall::policy
