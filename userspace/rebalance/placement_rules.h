// SPDX-License-Identifier: Apache-2.0
// Rules between pods, as the scheduler's filters have them: InterPodAffinity by whole topology
// domains, for the terms of the pod and for those of the pods that run there; PodTopologySpread;
// NodePorts. Pods are counted by domain once, and the counts follow the plan.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/node_domain_index.h"
#include "rebalance/pod_class_index.h"
#include "rebalance/pod_rules.h"
#include "rebalance/snapshot.h"

namespace forestall::rebalance {

class ClusterView;
class EligibleNodes;
class LabelIndex;

class PlacementRules {
 public:
  PlacementRules();
  ~PlacementRules();

  // Valid until the rules of another pod are read, or a pod of the view leaves its node. One pod is
  // compared with many nodes, so what holds for the last one is kept.
  [[nodiscard]] const PodRules& of(const ClusterView& view, std::size_t pod) {
    prepare(view, pod);
    return rules_;
  }

 private:
  // The nodes whose pods a spread constraint counts.
  struct CountedNodes {
    std::vector<bool> contains;
    std::size_t domains = 0;
  };
  // Pods that rules select, counted by domain. However many pods have these rules.
  struct Group {
    std::vector<PodAffinityTerm> rules;  // all must select a pod; `namespaces` lists all of them
    const NodeDomains* topology = nullptr;
    const CountedNodes* nodes = nullptr;  // null: all
    bool counted = false;                 // `selected` is filled
    bool is_owned = false;                // some live pod has it as a term of its anti-affinity
    DomainCounts selected;
    DomainCounts owners;  // the pods that have the rule, of anti-affinity
  };
  // A spread constraint of a class.
  struct Spread {
    const Group* group = nullptr;
    const SpreadConstraint* constraint = nullptr;
    bool selects_itself = false;
  };
  using Groups = std::vector<Group*>;
  // The same groups are checked for all pods of a class.
  struct PodClass {
    std::vector<std::size_t> live;  // its pods
    Groups owned;                   // anti-affinity terms of them
    bool is_prepared = false;
    Groups selecting;  // of those that live pods own
    std::vector<CountedPods> affinity;
    std::vector<Spread> spread;
    bool unsatisfiable = false;  // its affinity selects no pod
    // Of all groups, found among those without a label and those of its pods' labels, so many.
    Groups all_selecting;
    std::vector<const Groups*> listed;
    std::size_t compared = 0;
  };
  void start(const ClusterView& view);
  void follow(const ClusterView& view);
  void prepare(const ClusterView& view, std::size_t pod);
  [[nodiscard]] PodClass& class_of(const ClusterView& view, std::size_t pod);
  void prepare_class(const ClusterView& view, const ClusterPod& pod, PodClass& of);
  void add_affinity(const ClusterView& view, const ClusterPod& pod, PodClass& to);
  void add_spread(const ClusterView& view, const ClusterPod& pod, PodClass& to);
  void add_repelling(const PodClass& of, bool owns, std::optional<std::size_t> place);
  void add_counts(const ClusterPod& pod, const PodClass& of, std::optional<std::size_t> place);
  void count_owner(const ClusterView& view, std::size_t pod);

  [[nodiscard]] PodAffinityTerm resolved(const ClusterView& view, const ClusterPod& pod,
                                         PodAffinityTerm term) const;
  [[nodiscard]] Group& intern(std::vector<PodAffinityTerm> rules, std::string_view topology_key,
                              const CountedNodes* nodes);
  void index_by_label(Group& group);
  void count_selected(const ClusterView& view, Group& group);
  [[nodiscard]] const CountedNodes& counted_nodes(const ClusterView& view, const ClusterPod& pod,
                                                  const SpreadConstraint& constraint);
  // The groups that select the pod.
  [[nodiscard]] const Groups& selecting(const ClusterPod& pod, PodClass& of);

  bool started_ = false;
  bool between_pods_ = false;  // some pod has a rule
  std::size_t followed_ = 0;   // changes of the view that are counted
  std::deque<Group> groups_;
  std::unordered_map<std::string, Group*> by_text_;
  // By key and value of a label that their selectors require; and those that require no certain
  // one.
  std::unordered_map<std::string_view, std::unordered_map<std::string_view, Groups>> by_label_;
  Groups without_label_;
  std::deque<PodClass> classes_;  // by PodClassId
  std::unique_ptr<NodeDomainIndex> domains_;
  std::unique_ptr<LabelIndex> live_;  // one live pod of each class
  std::unique_ptr<EligibleNodes> eligible_;
  std::map<std::pair<const void*, std::vector<std::string_view>>, CountedNodes> counted_nodes_;
  PodsWithPorts with_ports_;

  std::optional<std::size_t> pod_;  // whose rules were read last
  PodRules rules_;                  // of it
};

}  // namespace forestall::rebalance
