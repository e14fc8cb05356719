// SPDX-License-Identifier: Apache-2.0
// What the rebalancer decided: every eviction, and the reasons for and against each pod.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rebalance/corrections.h"
#include "rebalance/move_memory.h"
#include "rebalance/shared_text.h"
#include "rebalance/waiting_moves.h"

namespace forestall::rebalance {

enum class ExtensionPoint : std::uint8_t { deschedule, balance };
[[nodiscard]] std::string_view to_string(ExtensionPoint point);

enum class NodeClass : std::uint8_t {
  underutilized,
  overutilized,
  appropriate,
  source,
  destination,
  excluded,
};
[[nodiscard]] std::string_view to_string(NodeClass each);

using Counts = std::map<std::string, std::int64_t, std::less<>>;  // by resource, as counted()
using Percents = std::map<std::string, double, std::less<>>;

struct ClassifiedNode {
  std::size_t node = 0;  // index in the snapshot
  NodeClass node_class = NodeClass::appropriate;
  Counts usage;
  Percents percent;
  Percents threshold;
  Percents target;
  std::string detail;  // of NodePressure: what is wrong with the node, or with its report
};

// All reasons of one filter against a pod; none: it passed.
using Reasons = std::vector<std::string>;

struct NodeFit {
  std::size_t node = 0;
  std::string reason;  // empty: the pod fits
};

struct ConsideredPod {
  std::size_t pod = 0;  // index in the snapshot
  Reasons filter;
  Reasons pre_eviction;
  std::vector<NodeFit> fits;
};

struct PodEviction {
  std::size_t pod = 0;
  SharedText profile;
  SharedText plugin;
  SharedText reason;
  // By the API server, by the pacing, or because no node has room for it; empty: evicted.
  SharedText refused;
  // Index in the snapshot of the node with room for it, if room-first is corrected.
  std::optional<std::size_t> destination = {};
};

// An eviction that a limit stopped.
struct LimitedPod {
  std::size_t pod = 0;     // index in the snapshot
  std::string_view limit;  // its message; of static storage
};

struct PluginReport {
  std::string plugin;
  ExtensionPoint point = ExtensionPoint::deschedule;
  std::vector<ClassifiedNode> nodes;      // of the two utilization plugins
  std::optional<Counts> total_available;  // before the first eviction
  std::vector<ConsideredPod> pods;        // in the order considered
  std::vector<PodEviction> evictions;
  std::vector<std::string> limits;  // that stopped an eviction, each once
  std::vector<LimitedPod> limited;  // by the limits of the policy
  std::string error;                // that ended the plugin
  std::string outcome;              // why the plugin had nothing to do
};

struct ProfileRun {
  std::string name;
  std::vector<PluginReport> plugins;
};

// A seat of a limit that was held for a move, because it had waited.
struct HeldSeat {
  std::size_t pod = 0;  // index in the snapshot
  std::string profile;
  std::string plugin;
  EvictionLimit limit = EvictionLimit::total;  // that refused it
  std::int64_t waited_seconds = 0;
};

// What the plans of one policy remember.
struct PlanHistory {
  MoveHistory moves;
  std::vector<WaitingMove> waiting;

  friend bool operator==(const PlanHistory&, const PlanHistory&) = default;
};

struct RebalancePlan {
  Corrections corrections;  // that were made
  std::vector<ProfileRun> profiles;
  std::vector<PodEviction> evictions;  // of all plugins, in order
  std::vector<HeldSeat> held_seats;    // the oldest move first
  std::string skipped;                 // why no plugin ran
  // What the next plan needs to remember; nothing: the policy has no memory.
  std::optional<PlanHistory> history;
  bool fits_omitted = false;  // too many pairs of pods and nodes
};

}  // namespace forestall::rebalance
