// SPDX-License-Identifier: Apache-2.0
// Looks now and then whether the containers of known pods still have the oom_score_adj their QoS
// class asks for, tells what deviates, and sets it where the configuration says so.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "actuators/oom_score_adj.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class OomScoreAdjPatrol {
 public:
  OomScoreAdjPatrol(const kernel::CgroupTree& tree, exports::Log& log) : tree_(tree), log_(log) {}

  // Looks at the next few pods of `workloads`, beginning after those of the last call: reading a
  // hundred pods' processes at once would keep the loop from a crossing for milliseconds.
  // `capacity` is MemTotal.
  void look(std::span<const WorkloadSample> workloads, Bytes capacity, OomScoreAdj mode);

 private:
  [[nodiscard]] std::vector<actuators::ExpectedOomScoreAdj> expected_of(const Workload& workload,
                                                                        Bytes capacity) const;
  void tell(const actuators::OomScoreAdjFinding& finding);

  const kernel::CgroupTree& tree_;
  exports::Log& log_;
  std::size_t next_ = 0;
  std::set<std::string> told_;  // what lasts is told once
};

}  // namespace forestall::agent
