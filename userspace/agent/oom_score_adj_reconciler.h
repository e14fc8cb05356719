// SPDX-License-Identifier: Apache-2.0
// Checks whether the containers of known pods still have the oom_score_adj of their QoS class, logs
// deviations, and corrects them where the configuration requires it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "actuators/oom_score_adj.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/workload.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class OomScoreAdjReconciler {
 public:
  OomScoreAdjReconciler(const kernel::CgroupTree& tree, exports::Log& log)
      : tree_(tree), log_(log) {}

  // Checks the next few pods of `workloads`, beginning after those of the last call: reading the
  // processes of a hundred pods at once would block the loop for milliseconds.
  // `capacity` is MemTotal.
  void reconcile(std::span<const Workload* const> workloads, Bytes capacity, OomScoreAdj mode);

 private:
  [[nodiscard]] std::vector<actuators::ExpectedOomScoreAdj> expected_of(const Workload& workload,
                                                                        Bytes capacity) const;
  void report(const actuators::OomScoreAdjFinding& finding);

  const kernel::CgroupTree& tree_;
  exports::Log& log_;
  std::size_t next_ = 0;
  std::set<std::string> reported_;  // a deviation is logged once while it lasts
};

}  // namespace forestall::agent
