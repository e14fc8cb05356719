// SPDX-License-Identifier: Apache-2.0
// The ten plugins of the descheduler, and NodePressure. Each one evicts through its session and
// records there why it ended.
#pragma once

#include "rebalance/policy.h"
#include "rebalance/session.h"

namespace forestall::rebalance {

// Pods of nodes above their target thresholds, as long as nodes below their thresholds have room.
void run_plugin(PluginSession& session, const LowNodeUtilizationArgs& args);
// All pods of nodes below their thresholds, as long as the other nodes have room.
void run_plugin(PluginSession& session, const HighNodeUtilizationArgs& args);
// Pods of one owner and with the same images on one node, until they are spread evenly.
void run_plugin(PluginSession& session, const RemoveDuplicatesArgs& args);
// Pods whose required anti-affinity matches another pod in the same topology domain.
void run_plugin(PluginSession& session, const InterPodAntiAffinityArgs& args);
// Pods whose node affinity the node no longer fulfils, or another node fulfils better.
void run_plugin(PluginSession& session, const NodeAffinityArgs& args);
// Pods that do not tolerate a taint of their node.
void run_plugin(PluginSession& session, const NodeTaintsArgs& args);
// Pods of topology domains that have too many.
void run_plugin(PluginSession& session, const TopologySpreadArgs& args);
// Pods whose containers restarted too often.
void run_plugin(PluginSession& session, const TooManyRestartsArgs& args);
// PodLifeTime and RemoveFailedPods: old pods, and pods in certain states.
void run_plugin(PluginSession& session, const PodLifeTimeArgs& args);
// Pods of nodes whose memory will be short soon, by the reports of the nodes.
void run_plugin(PluginSession& session, const NodePressureArgs& args);

}  // namespace forestall::rebalance
