// SPDX-License-Identifier: Apache-2.0
// Memory that stays charged to workloads without processes: when it is reclaimed, in which order,
// and what the log reports of the results (actuators/left_behind_reclaim.h does it).
#pragma once

#include <vector>

#include "actuators/ladder.h"
#include "actuators/left_behind_reclaim.h"
#include "exports/log.h"
#include "model/decision.h"
#include "model/workload.h"

namespace forestall::agent {

// The workloads of the decision whose left-behind memory is to be reclaimed, the largest first.
// None unless the decision is about memory: reclaim moves memory into swap, which is of no use when
// swap is short. They are owned by `decision`.
[[nodiscard]] std::vector<const WorkloadSample*> left_behind(const Decision& decision);

// A tenant decides how often reclaim frees nothing or finds the group removed: that is for
// debugging only.
[[nodiscard]] exports::LogLevel level_of(const actuators::Reclaimed& reclaimed);

// Thread rule: the loop's thread only. What it is made with outlives it.
class LeftBehindController {
 public:
  LeftBehindController(actuators::Ladder& ladder, exports::Log& log) : ladder_(ladder), log_(log) {}

  // Reclaims this memory before the agent kills a workload within its request: until then the limit
  // on the damage protects such workloads (policy/damage_limit.h). When a reclaim has ended, the
  // next evaluation follows and starts the next one.
  void evaluated(const Decision& decision);
  // Logs the results since the last call.
  void report();

 private:
  actuators::Ladder& ladder_;
  exports::Log& log_;
};

}  // namespace forestall::agent
