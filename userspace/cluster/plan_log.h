// SPDX-License-Identifier: Apache-2.0
// What the log and the Events have of a plan.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cluster/cluster_event.h"
#include "cluster/paced_log.h"
#include "cluster/plan_evictions.h"
#include "rebalance/plan.h"

namespace forestall::cluster {

void log_plan(PacedLog& log, const rebalance::RebalancePlan& plan, std::size_t evictions);
// `problem`: why the pod was not evicted; empty: it was, or may be.
void log_eviction(PacedLog& log, const PlannedEviction& eviction, std::string_view state,
                  const std::string& problem);
void log_placeholder(PacedLog& log, const PodTarget& pod, const std::string& node,
                     std::string_view state, const std::string& reason);

[[nodiscard]] ClusterEvent eviction_event(const PlannedEviction& eviction);
[[nodiscard]] ClusterEvent failure_event(const PlannedEviction& eviction,
                                         const std::string& problem);

}  // namespace forestall::cluster
