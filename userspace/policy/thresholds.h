// SPDX-License-Identifier: Apache-2.0
// Decides which thresholds are met, which of them drive an eviction, and in which order the policy
// acts on them.
//
// The rules are kubelet's (pkg/kubelet/eviction/eviction_manager.go synchronize) with three
// additions:
// - Credit: memory that victims are about to release counts as available when the policy decides
//   whether to act, but not when it decides whether a threshold is still met. So a minimum reclaim
//   stays in force while a victim exits.
// - Each watched cgroup is a subject of its own.
// - A signal that could not be read leaves the state of its thresholds unchanged. Kubelet reads all
//   signals together or none, and ends its pass in that case.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/conditions.h"
#include "policy/state.h"

namespace forestall::policy {

// A threshold that drives an eviction if credit is ignored.
struct Crossing {
  ThresholdId id;
  std::size_t evidence = 0;  // index into Assessment::evidence
  bool covered = false;      // memory about to be released will satisfy it
  bool newer = true;         // the signal was read again since the last step acted on it
  // No longer met, but node-level reclaim that it requested has finished.
  bool resumed = false;
};

struct Assessment {
  bool computed = false;            // the signal of at least one threshold is known
  std::vector<Evidence> evidence;   // met ones first, then in the order of for_each_subject()
  std::vector<Crossing> crossings;  // in the order in which the policy acts on them
  Pressure pressure{};
  State state;  // the next state, without its conditions and `cleanup_until`
};

// Once the thresholds on containerfs are derived, and while nothing is met or driving, allocates
// only the evidence.
[[nodiscard]] Assessment assess(const Config& config, const State& state,
                                const Observation& observation);

}  // namespace forestall::policy
