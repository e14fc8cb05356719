// SPDX-License-Identifier: Apache-2.0
// A synthetic cluster over hours, with a model of the scheduler and of the kubelet, under a policy.
// It shows what a policy does to hot nodes, evictions and kills, and whether it moves pods in
// loops. Pure and deterministic: the seed decides everything.
//
// The model, in short. A step is a minute. Nodes have 16 CPUs and 64 GiB; requests fill 85 % of the
// memory in the mean. A pod has no limit. It uses a share of its request that follows a daily wave.
// One workload in twelve leaks until its pods restart. Now and then a pod needs 2 GiB more for five
// minutes. The scheduler selects a node with the fewest pods of the workload, then the one that
// requests fill least; the requests of an evicted pod still count. The kubelet evicts below 1,280
// MiB available: one pod in a step, the one that exceeds its request most. The kernel kills the
// process that uses most if a step needs more than the node has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rebalance/plan.h"
#include "rebalance/policy.h"

namespace forestall::rebalance {

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::uint64_t nodes = 100;
  std::uint64_t pods_per_node = 20;  // on average
  std::uint64_t hours = 24;
  std::uint64_t interval_seconds = 300;  // between two plans; whole minutes
  // As if the policy had `reserve: placeholder`: a replacement runs where the plan booked room for
  // it. Otherwise the scheduler places it, which ignores the booking.
  bool placeholders = false;
};

// At one time; counts since the start.
struct SimulationPoint {
  std::int64_t seconds = 0;
  std::optional<std::uint64_t> hot_nodes = 0;  // nothing: of no node is the memory measured
  std::uint64_t moves = 0;                     // pods that the policy evicted
  std::uint64_t loops = 0;  // moves of a pod that was moved less than an hour before
  // Nothing: unknown. A trace does not have what would have happened.
  std::optional<std::uint64_t> evictions = 0;  // by the kubelet
  std::optional<std::uint64_t> kills = 0;      // by the kernel
  // Of a trace.
  std::uint64_t unknown_nodes = 0;  // whose memory is not measured
  // Of nodes that are measured in all runs: comparable between policies.
  std::uint64_t compared_nodes = 0;
  std::optional<std::uint64_t> compared_hot_nodes = {};  // nothing: there are none
  std::uint64_t waiting = 0;                             // replacements that fit no node
};

// A node is hot if less than this share of its memory is available.
inline constexpr double kHotShare = 0.1;
inline constexpr std::int64_t kLoopSeconds = 3600;

// How many fewer of `count` than at the same time in a run in which nothing is moved. Negative: so
// many more. Nothing: unknown.
[[nodiscard]] inline std::optional<std::int64_t> avoided(
    const SimulationPoint& unmoved, const SimulationPoint& point,
    std::optional<std::uint64_t> SimulationPoint::*count) {
  if (!(unmoved.*count) || !(point.*count)) return std::nullopt;
  return static_cast<std::int64_t>(*(unmoved.*count)) - static_cast<std::int64_t>(*(point.*count));
}

struct SimulationRun {
  std::string name;
  std::vector<SimulationPoint> points;
  std::optional<double> hot_node_minutes = 0;  // nothing: unknown
  // Of a trace. Unknown nodes may have been hot: hot_node_minutes is the least.
  double unknown_node_minutes = 0;
  double compared_node_minutes = 0;                      // of SimulationPoint::compared_nodes
  std::optional<double> compared_hot_node_minutes = {};  // nothing: there are none
  std::uint64_t refused = 0;  // evictions that a rule of the plan refused
  // Right after its moves than before them. Nothing: of some plan it is unknown.
  std::optional<std::uint64_t> plans_with_more_hot_nodes = 0;
  std::string error;  // the first one that ended a plugin; empty: none did
};

// `policy` null: nothing is moved.
[[nodiscard]] SimulationRun simulate(const SimulationOptions& options, std::string name,
                                     const Policy* policy);

// "PROFILE/PLUGIN: ERROR", of the first plugin that an error ended; empty: of none.
[[nodiscard]] std::string first_error(const RebalancePlan& plan);

}  // namespace forestall::rebalance
