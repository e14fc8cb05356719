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

#include "rebalance/snapshot.h"

namespace forestall::rebalance {

class ClusterView;
class EligibleNodes;
class LabelIndex;

enum class PlacementProblem : std::uint8_t { none, pod_affinity, spread, ports };

// Numbers of pods, by the value of a topology key.
class DomainCounts {
 public:
  void add(std::string_view value, std::int64_t change);
  [[nodiscard]] std::int64_t of(std::string_view value) const {
    const auto found = counts_.find(value);
    return found == counts_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::int64_t total() const { return total_; }
  // The smallest number in `domains` domains, without one pod of the domain `without`.
  [[nodiscard]] std::int64_t least(std::size_t domains,
                                   std::optional<std::string_view> without) const;

 private:
  std::unordered_map<std::string_view, std::int64_t> counts_;
  std::map<std::int64_t, std::size_t> domains_;  // how many have so many pods, if any
  std::size_t occupied_ = 0;
  std::int64_t total_ = 0;
};

class PlacementRules {
 public:
  PlacementRules();
  ~PlacementRules();

  // Whether required anti-affinity keeps the pod away from the node. One pod is checked for many
  // nodes, so what holds for the last one is kept.
  [[nodiscard]] bool repel(const ClusterView& view, std::size_t pod, const Node& node);
  // The other rules.
  [[nodiscard]] PlacementProblem problem(const ClusterView& view, std::size_t pod,
                                         std::size_t node);

 private:
  // The nodes whose pods a spread constraint counts.
  struct CountedNodes {
    std::vector<bool> contains;
    std::size_t domains = 0;
  };
  // Pods that rules select, counted by domain. However many pods have these rules.
  struct Group {
    std::vector<PodAffinityTerm> rules;  // all must select a pod; `namespaces` lists all of them
    std::string_view topology_key;
    const CountedNodes* nodes = nullptr;  // null: all
    bool counted = false;                 // `selected` is filled
    DomainCounts selected;
    DomainCounts owners;  // the pods that have the rule, of anti-affinity
  };
  // A group of the checked pod.
  struct Checked {
    const Group* group = nullptr;
    const DomainCounts* counts = nullptr;
    std::optional<std::string_view> own_value;  // of the domain where the pod itself is counted
    const SpreadConstraint* constraint = nullptr;
    bool selects_itself = false;

    [[nodiscard]] std::int64_t others_in(std::string_view value) const {
      return counts->of(value) - (own_value == value ? 1 : 0);
    }
  };
  using Groups = std::vector<Group*>;

  void start(const ClusterView& view);
  void follow(const ClusterView& view);
  void prepare(const ClusterView& view, std::size_t pod);
  void prepare_affinity(const ClusterView& view, const ClusterPod& pod, const Node* place);
  void prepare_spread(const ClusterView& view, const ClusterPod& pod, const Node* place);
  void add_owned_terms(const ClusterView& view, std::size_t pod);

  [[nodiscard]] PodAffinityTerm resolved(const ClusterView& view, const ClusterPod& pod,
                                         PodAffinityTerm term) const;
  [[nodiscard]] Group& intern(std::vector<PodAffinityTerm> rules, std::string_view topology_key,
                              const CountedNodes* nodes);
  void index_by_label(Group& group);
  void count_selected(const ClusterView& view, Group& group);
  [[nodiscard]] const CountedNodes& counted_nodes(const ClusterView& view, const ClusterPod& pod,
                                                  const SpreadConstraint& constraint);
  // The groups that select the pod.
  [[nodiscard]] Groups selecting(const ClusterPod& pod) const;
  [[nodiscard]] bool has_affinity(const Node& node) const;
  [[nodiscard]] bool keeps_spread(const Node& node) const;
  [[nodiscard]] bool has_ports(const ClusterView& view, std::size_t pod, std::size_t node) const;

  bool started_ = false;
  bool between_pods_ = false;  // some pod has a rule
  std::size_t followed_ = 0;   // changes of the view that are counted
  std::deque<Group> groups_;
  std::unordered_map<std::string, Group*> by_text_;
  // By key and value of a label that their selectors require; and those that require no certain
  // one.
  std::unordered_map<std::string_view, std::unordered_map<std::string_view, Groups>> by_label_;
  Groups without_label_;
  std::unordered_map<std::size_t, Groups> of_pod_;  // anti-affinity, by owner
  std::unique_ptr<LabelIndex> live_;                // pods
  std::unique_ptr<EligibleNodes> eligible_;
  std::map<std::pair<const void*, std::vector<std::string_view>>, CountedNodes> counted_nodes_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> with_ports_;  // pods, by node

  std::optional<std::size_t> pod_;  // that was checked last
  std::vector<Checked> repelling_;
  std::vector<Checked> affinity_;
  std::vector<Checked> spread_;
  bool unsatisfiable_ = false;  // its affinity selects no pod
};

}  // namespace forestall::rebalance
