// SPDX-License-Identifier: Apache-2.0
// Recorded states of a cluster, one after the other, under a policy. The recorded pods run as they
// did; those that the policy moves run on their new nodes from the next state on, with their usage.
// Pure and deterministic.
//
// A model decides where a replacement runs: the scheduler's predicates, then RoomFinder's scores,
// while the requests of the evicted pod still count on its node. What the kubelet or the kernel
// would have done on other nodes than in the recording is unknown.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "rebalance/node_heat.h"
#include "rebalance/plan.h"
#include "rebalance/policy.h"
#include "rebalance/simulation.h"
#include "rebalance/snapshot.h"
#include "rebalance/trace_overlay.h"
#include "rebalance/waiting_pods.h"

namespace forestall::rebalance {

struct TracePlayOptions {
  // Between two plans. 0: a plan for each state.
  std::uint64_t interval_seconds = 0;
  // The usual time between two states. They have jitter: a plan is made for the state that is
  // nearest to the end of the interval.
  std::int64_t usual_gap_ns = 0;
  bool placeholders = false;  // as SimulationOptions::placeholders
};

class TraceSimulation {
 public:
  // `policy` null: nothing is moved.
  TraceSimulation(const TracePlayOptions& options, std::string name, const Policy* policy);

  // The next state. REQUIRES: it is sorted, and later than the one before.
  void play(const Snapshot& recorded);
  // The nodes of the last state, before its plan, in the order of the recorded state.
  [[nodiscard]] const std::vector<NodeHeat>& nodes() const { return nodes_; }
  // `measured`: whether the memory of a node of the last state is measured in every run.
  void compare(const std::vector<bool>& measured);
  // REQUIRES: called once, after all states.
  [[nodiscard]] SimulationRun take() &&;

 private:
  // The state with the moves so far.
  [[nodiscard]] Snapshot moved(const Snapshot& recorded);
  void add_minutes(std::int64_t until_ns);
  // Adds the reports of earlier states, and keeps those of this one for later ones.
  void join_reports(Snapshot& state);
  [[nodiscard]] bool is_due(std::int64_t now_ns) const;
  void apply_policy(const Snapshot& state);
  // `state`: the recorded one with the moves of the plan too.
  void judge_plan(const Snapshot& state);
  void place_waiting(const Snapshot& state, const std::vector<LeavingRequest>& leaving);

  const TracePlayOptions options_;
  std::optional<Policy> policy_;    // nothing: nothing is moved
  std::uint64_t reports_kept_ = 0;  // of each node
  TraceOverlay overlay_;
  PlanHistory history_;
  // As this run's nodes would have sent them, by node and time.
  std::vector<NodeReport> reports_;
  StringPool report_texts_;
  std::optional<std::int64_t> start_ns_;
  std::int64_t last_ns_ = 0;
  std::optional<std::int64_t> planned_ns_;
  std::vector<NodeHeat> nodes_;
  std::unordered_set<std::string> received_;  // nodes with a pod that the last plan moved there
  // Of nodes.
  Nanos hot_time_ = 0;
  Nanos unknown_time_ = 0;
  Nanos compared_time_ = 0;
  Nanos compared_hot_time_ = 0;
  bool hot_known_ = false;
  SimulationPoint now_;
  SimulationRun run_;
};

// After a state, which all runs played: counts hot nodes among those that are measured in all of
// them. A move of a pod without a measurement makes nodes unknown, so that the other counts of two
// policies are not of the same nodes.
void compare_runs(std::deque<TraceSimulation>& runs);

}  // namespace forestall::rebalance
