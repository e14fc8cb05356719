// SPDX-License-Identifier: Apache-2.0
// Whether a pod fits a node, by the scheduler's predicates that the descheduler has. If
// scheduler-filters is corrected, also by pod affinity, topology spread, host ports and volumes.
// Not covered: preemption, and how many volumes a node can attach.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

// The first predicate that fails, in the descheduler's words; empty if the pod fits. Resources and
// the number of pods are not checked on the pod's own node.
[[nodiscard]] std::string fit_problem(const ClusterView& view, PodIndex pod, NodeIndex node);

// fit_problem() without the words.
[[nodiscard]] bool fits(const ClusterView& view, PodIndex pod, NodeIndex node);

[[nodiscard]] bool fits_any(const ClusterView& view, PodIndex pod,
                            std::span<const NodeIndex> nodes);
// Without the node of the pod.
[[nodiscard]] bool fits_any_other(const ClusterView& view, PodIndex pod,
                                  std::span<const NodeIndex> nodes);

// fits(), without the predicates that EligibleNodes has answered: labels, taints, and here also
// resources. For a comparison with many nodes, as long as no pod leaves its node and no other pod
// is compared.
class RuleFit {
 public:
  // `view` must outlive this object.
  RuleFit(const ClusterView& view, PodIndex pod);
  [[nodiscard]] bool fits(NodeIndex node) const {
    if (rules_ == nullptr) return fits_one_by_one(node);
    return rules_->admit(node) && !view_.is_cordoned(node) && (!has_claims_ || has_volumes(node));
  }

 private:
  [[nodiscard]] bool has_volumes(NodeIndex node) const;
  [[nodiscard]] bool fits_one_by_one(NodeIndex node) const;

  const ClusterView& view_;
  const PodIndex pod_;
  const PodRules* rules_ = nullptr;  // null: not all of them count
  const bool has_claims_;
};

// What a pod requests, for a comparison with many nodes.
class PodNeed {
 public:
  // `view` must outlive this object.
  PodNeed(const ClusterView& view, PodIndex pod);
  // Whether the node has what the pod requests, and room for one more pod.
  [[nodiscard]] bool fits(NodeIndex node) const {
    const NodeRoom& room = view_.room_on(node);
    return cpu_ <= room.cpu && memory_ <= room.memory && room.pods > 0 &&
           (!needs_more_ || has_others(node));
  }

 private:
  [[nodiscard]] bool has_others(NodeIndex node) const;

  // What is not requested fits a node that is overcommitted.
  static constexpr Nanos kNothing = std::numeric_limits<Nanos>::min();

  const ClusterView& view_;
  const ClusterPod& pod_;
  Nanos cpu_ = kNothing;
  Nanos memory_ = kNothing;
  bool needs_more_ = false;  // than cpu, memory and its place
};

// spec.nodeSelector and the required node affinity.
[[nodiscard]] bool matches_node(const ClusterPod& pod, const Node& node);

// Whether the pod tolerates all taints of the node that keep pods away: NoSchedule and NoExecute.
[[nodiscard]] bool tolerates_node(const ClusterPod& pod, const Node& node);

// Whether some toleration of the pod tolerates the taint.
[[nodiscard]] bool tolerates(const ClusterPod& pod, const Taint& taint);

// Whether `other` is in a namespace of the term of `pod`, and selected.
[[nodiscard]] bool selects(const ClusterPod& pod, const PodAffinityTerm& term,
                           const ClusterPod& other);

// Whether `other` is a pod that a required anti-affinity term of `pod` keeps away: selected, and
// not of the same name.
[[nodiscard]] bool repels(const ClusterPod& pod, const PodAffinityTerm& term,
                          const ClusterPod& other);

// The nodes, by index, that are ready and match the selector.
[[nodiscard]] std::vector<NodeIndex> ready_nodes(const ClusterView& view,
                                                 const LabelSelector& selector);

}  // namespace forestall::rebalance
