// SPDX-License-Identifier: Apache-2.0
// The rebalancer: which pods should leave their nodes, so that the scheduler places them better.
// A pure function, like the node agent's policy: no clock, no I/O; equal candidates are ordered by
// namespace and name, and the order of the input does not matter.
//
// Without corrections (`compat: upstream`) it decides exactly as kubernetes-sigs/descheduler does,
// quirks included, where that program is deterministic. See corrections.h for `compat: fixed`.
#pragma once

#include "rebalance/plan.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::rebalance {

struct CycleOptions {
  bool explain = false;  // list each considered pod with the reasons for and against it
  // At most so many pairs of pods and nodes are listed with the reason why the pod does not fit.
  std::size_t fits_max = 200'000;
};

// One descheduling cycle. `history`: RebalancePlan::history of the last plan. REQUIRES:
// sort(snapshot) was called.
[[nodiscard]] RebalancePlan rebalance(const Policy& policy, const Snapshot& snapshot,
                                      const PlanHistory& history, const CycleOptions& options = {});
// Without earlier plans.
[[nodiscard]] RebalancePlan rebalance(const Policy& policy, const Snapshot& snapshot,
                                      const CycleOptions& options = {});

}  // namespace forestall::rebalance
