// SPDX-License-Identifier: Apache-2.0
#include "rebalance/corrections.h"

namespace forestall::rebalance {
namespace {

// kubernetes-sigs/descheduler issues are named where there is one.
constexpr CorrectionRow kTable[] = {
    {Correction::evict_annotation, "evict-annotation",
     "the annotation evict=false protects a pod, and another value lifts no protection of static, "
     "mirror and terminating pods (#329, #422)"},
    {Correction::priority_threshold, "priority-threshold",
     "a priorityThreshold below the system priorities protects pods even if system critical pods "
     "are "
     "not protected"},
    {Correction::min_replicas, "min-replicas",
     "minReplicas counts pods of the owner's namespace that run or start, and neither those that "
     "have ended or terminate nor those that the plan evicts"},
    {Correction::anti_affinity, "anti-affinity",
     "nodeFit respects required anti-affinity in the whole topology domain, of the pod and of the "
     "pods that run there (#1279)"},
    {Correction::destination_taints, "destination-taints",
     "of a destination only NoSchedule and NoExecute taints count, and one toleration may tolerate "
     "several"},
    {Correction::exact_caps, "exact-caps",
     "the share of a capacity is computed exactly: 29 % of 100 is 29, not 28"},
    {Correction::node_order, "node-order",
     "nodes are ordered by their mean percentage, not by cpu, bytes and pods added up"},
    {Correction::unlisted_resources, "unlisted-resources",
     "only resources with a threshold start, continue and end moves"},
    {Correction::preferred_node, "preferred-node",
     "a preferred node counts only if the pod fits it (#1410, #1707)"},
    {Correction::metric_rounding, "metric-rounding",
     "shares from Prometheus are rounded to percent, not truncated: 0.57 is 57"},
    {Correction::scheduler_filters, "scheduler-filters",
     "nodeFit respects required pod affinity, topology spread with minDomains, host ports, and the "
     "nodes of volumes (#1149, #1421)"},
    {Correction::room_first, "room-first",
     "a pod is moved only to a node with room for it, which is booked for the rest of the plan"},
    {Correction::leaving_pods, "leaving-pods",
     "LowNodeUtilization counts pods that terminate, at most 10 minutes after their deletion, and "
     "pods that the plan has evicted, as gone from a node that it moves pods off"},
    {Correction::hidden_usage, "hidden-usage",
     "with reserve: placeholder, LowNodeUtilization by KubernetesMetrics moves, of pods of equal "
     "rank, those first that use "
     "most above their requests, because the scheduler fills a node up again by requests"},
    {Correction::destinations_below_target, "destinations-below-target",
     "LowNodeUtilization moves pods also to nodes that stay below their targets with them, if no "
     "underutilized node has room, and also if no node is underutilized"},
    {Correction::unknown_usage, "unknown-usage",
     "by KubernetesMetrics, a pod stays if one of its containers has no value of cpu or memory, "
     "and a node without such a value is an error, not unused; samples more than 120 s older or "
     "newer than the plan count as absent"},
    {Correction::useful_moves, "useful-moves",
     "LowNodeUtilization moves only pods that use something of what their node is short of; by "
     "Prometheus, only those that request cpu or memory"},
    {Correction::underutilized_destinations, "underutilized-destinations",
     "HighNodeUtilization moves pods also to fuller underutilized nodes, which then stay, if no "
     "other node has room, and also if all nodes are underutilized (#725, #755)"},
    {Correction::waiting_moves, "waiting-moves",
     "a move that a limit or a disruption budget refuses for 1,800 s gets the next seat of it, so "
     "that the order of the plugins starves no workload"},
    {Correction::whole_drains, "whole-drains",
     "HighNodeUtilization moves pods off a node only if all that have to leave it can, and off no "
     "node that the plan moved pods to (#725, #1461)"},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<std::size_t>(kTable[i].correction) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

std::span<const CorrectionRow> correction_table() {
  return kTable;
}

Corrections Corrections::all() {
  Corrections all;
  for (const CorrectionRow& each : kTable) all.add(each.correction);
  return all;
}

}  // namespace forestall::rebalance
