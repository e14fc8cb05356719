// SPDX-License-Identifier: Apache-2.0
// Where the rules between pods keep a pod away, as the scheduler's InterPodAffinity filter has
// them: by whole topology domains, for the terms of the pod and for those of the pods that run
// there. Pods are counted by domain once, and the counts follow the plan.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rebalance/snapshot.h"

namespace forestall::rebalance {

class ClusterView;
class LabelIndex;

// Numbers of pods, by the value of a topology key.
class DomainCounts {
 public:
  void add(std::string_view value, std::int64_t change) { counts_[value] += change; }
  [[nodiscard]] std::int64_t of(std::string_view value) const {
    const auto found = counts_.find(value);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<std::string_view, std::int64_t> counts_;
};

class PlacementRules {
 public:
  PlacementRules();
  ~PlacementRules();

  // Whether required anti-affinity keeps the pod away from the node. One pod is checked for many
  // nodes, so what holds for the last one is kept.
  [[nodiscard]] bool repel(const ClusterView& view, std::size_t pod, const Node& node);

 private:
  // A term, however many pods have it.
  struct Term {
    AntiAffinityTerm rule;  // with its namespaces
    bool counted = false;   // `selected` is filled
    DomainCounts selected;  // the pods that it selects
    DomainCounts owners;    // the pods that have it
  };
  // Some pods that repel the checked pod, without itself.
  struct Repelling {
    std::string_view topology_key;
    const DomainCounts* counts = nullptr;
    std::optional<std::string_view> own_value;  // of the domain where the checked pod is counted
  };

  void start(const ClusterView& view);
  void follow(const ClusterView& view);
  void prepare(const ClusterView& view, std::size_t pod);
  [[nodiscard]] Term& intern(const ClusterPod& pod, const AntiAffinityTerm& term);
  void count_selected(const ClusterView& view, Term& term);
  // The terms that select the pod.
  [[nodiscard]] std::vector<Term*> selecting(const ClusterPod& pod);

  bool started_ = false;
  std::size_t followed_ = 0;  // changes of the view that are counted
  std::deque<Term> terms_;
  std::unordered_map<std::string, Term*> by_text_;
  // By key and value of a label that their selectors want; and those that want no certain one.
  std::unordered_map<std::string_view, std::unordered_map<std::string_view, std::vector<Term*>>>
      by_label_;
  std::vector<Term*> without_label_;
  std::unordered_map<std::size_t, std::vector<Term*>> of_pod_;
  std::unique_ptr<LabelIndex> live_;  // pods

  std::optional<std::size_t> pod_;  // that was checked last
  std::vector<Repelling> repelling_;
};

}  // namespace forestall::rebalance
