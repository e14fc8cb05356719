// SPDX-License-Identifier: Apache-2.0
#include "rebalance/placement_rules.h"

#include <algorithm>
#include <span>
#include <utility>

#include "rebalance/cluster_view.h"
#include "rebalance/label_index.h"
#include "rebalance/node_fit.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

bool has_terms(const ClusterPod& pod) {
  return pod.placement && !pod.placement->anti_affinity.empty();
}

void count_at(DomainCounts& counts, const Node& node, std::string_view topology_key,
              std::int64_t change) {
  if (const auto value = find_label(node.labels, topology_key)) counts.add(*value, change);
}

}  // namespace

PlacementRules::PlacementRules() = default;
PlacementRules::~PlacementRules() = default;

PlacementRules::Term& PlacementRules::intern(const ClusterPod& pod, const AntiAffinityTerm& term) {
  AntiAffinityTerm rule = term;
  if (rule.namespaces.empty()) rule.namespaces.push_back(pod.pod_namespace);
  std::sort(rule.namespaces.begin(), rule.namespaces.end());
  TextKey key;
  key.add(rule.topology_key);
  key.add(rule.namespaces.size());
  for (const std::string_view each : rule.namespaces) key.add(each);
  key.add(rule.selector->requirements);
  const auto [known, is_new] = by_text_.try_emplace(std::move(key).take());
  if (!is_new) return *known->second;
  Term& added = terms_.emplace_back();
  known->second = &added;
  added.rule = std::move(rule);
  const auto& requirements = added.rule.selector->requirements;
  const auto listed = std::find_if(requirements.begin(), requirements.end(),
                                   [](const Requirement& each) { return each.op == Operator::in; });
  if (listed == requirements.end()) {
    without_label_.push_back(&added);
    return added;
  }
  for (const std::string& value : listed->values) {
    std::vector<Term*>& terms = by_label_[listed->key][value];
    // A value may be listed twice.
    if (terms.empty() || terms.back() != &added) terms.push_back(&added);
  }
  return added;
}

void PlacementRules::start(const ClusterView& view) {
  started_ = true;
  followed_ = view.place_changes().size();
  std::vector<PodIndex> live;
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    const ClusterPod& pod = view.pod(i);
    if (!is_live(pod)) continue;
    live.push_back(i);
    if (!has_terms(pod)) continue;
    const auto node = view.place_of(i);
    std::vector<Term*>& terms = of_pod_[i];
    for (const AntiAffinityTerm& each : pod.placement->anti_affinity) {
      if (!each.selector) continue;  // selects nothing
      Term& term = intern(pod, each);
      if (std::find(terms.begin(), terms.end(), &term) != terms.end()) continue;
      terms.push_back(&term);
      if (node) count_at(term.owners, view.node(*node), each.topology_key, 1);
    }
  }
  live_ = std::make_unique<LabelIndex>(view, std::move(live));
}

std::vector<PlacementRules::Term*> PlacementRules::selecting(const ClusterPod& pod) {
  std::vector<Term*> found;
  const auto add = [&](const std::vector<Term*>& terms) {
    for (Term* const each : terms) {
      if (selects(pod, each->rule, pod)) found.push_back(each);
    }
  };
  add(without_label_);
  for (const auto& [key, value] : pod.labels) {
    const auto values = by_label_.find(key);
    if (values == by_label_.end()) continue;
    const auto terms = values->second.find(value);
    if (terms != values->second.end()) add(terms->second);
  }
  return found;
}

void PlacementRules::count_selected(const ClusterView& view, Term& term) {
  if (term.counted) return;
  term.counted = true;
  for (const PodIndex each : live_->matching(*term.rule.selector)) {
    const auto node = view.place_of(each);
    if (!node || !selects(view.pod(each), term.rule, view.pod(each))) continue;
    count_at(term.selected, view.node(*node), term.rule.topology_key, 1);
  }
}

void PlacementRules::follow(const ClusterView& view) {
  const auto& changes = view.place_changes();
  if (followed_ != changes.size()) pod_.reset();
  for (; followed_ < changes.size(); ++followed_) {
    const PlaceChange& change = changes[followed_];
    const auto count = [&](DomainCounts& counts, std::string_view topology_key) {
      count_at(counts, view.node(change.from), topology_key, -1);
      if (change.to) count_at(counts, view.node(*change.to), topology_key, 1);
    };
    if (!is_live(view.pod(change.pod))) continue;
    if (const auto own = of_pod_.find(change.pod); own != of_pod_.end()) {
      for (Term* const each : own->second) count(each->owners, each->rule.topology_key);
    }
    for (Term* const each : selecting(view.pod(change.pod))) {
      if (each->counted) count(each->selected, each->rule.topology_key);
    }
  }
}

void PlacementRules::prepare(const ClusterView& view, std::size_t index) {
  if (!started_) start(view);
  if (terms_.empty()) return;
  follow(view);
  if (pod_ == index) return;
  pod_ = index;
  repelling_.clear();
  const ClusterPod& pod = view.pod(index);
  const auto place = view.place_of(index);
  const auto add = [&](const Term& term, const DomainCounts& counts, bool counts_itself) {
    std::optional<std::string_view> own;
    if (counts_itself && place) own = find_label(view.node(*place).labels, term.rule.topology_key);
    repelling_.push_back({term.rule.topology_key, &counts, own});
  };
  const std::vector<Term*> selecting_it = selecting(pod);
  const auto own = of_pod_.find(index);
  std::span<Term* const> its_terms;
  if (own != of_pod_.end()) its_terms = own->second;
  const auto is_in = [](std::span<Term* const> list, const Term* term) {
    return std::find(list.begin(), list.end(), term) != list.end();
  };
  for (Term* const each : its_terms) {
    count_selected(view, *each);
    add(*each, each->selected, is_in(selecting_it, each));
  }
  for (Term* const each : selecting_it) add(*each, each->owners, is_in(its_terms, each));
}

bool PlacementRules::repel(const ClusterView& view, std::size_t pod, const Node& node) {
  prepare(view, pod);
  if (terms_.empty()) return false;
  return std::any_of(repelling_.begin(), repelling_.end(), [&](const Repelling& each) {
    const auto value = find_label(node.labels, each.topology_key);
    return value && each.counts->of(*value) - (each.own_value == value ? 1 : 0) > 0;
  });
}

}  // namespace forestall::rebalance
