// SPDX-License-Identifier: Apache-2.0
#include "rebalance/placement_rules.h"

#include <algorithm>

#include "rebalance/cluster_view.h"
#include "rebalance/eligible_nodes.h"
#include "rebalance/label_index.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kDoNotSchedule = "DoNotSchedule";

void count_at(DomainCounts& counts, DomainId domain, std::int32_t change) {
  if (domain != kNoDomainId) counts.add(domain, change);
}

// The namespaces of the rule are all listed.
bool is_selected(const PodAffinityTerm& rule, const ClusterPod& pod) {
  return std::ranges::binary_search(rule.namespaces, pod.pod_namespace) &&
         matches(*rule.selector, pod.labels);
}

bool all_select(const std::vector<PodAffinityTerm>& rules, const ClusterPod& pod) {
  return std::ranges::all_of(rules, [&](const auto& each) { return is_selected(each, pod); });
}

// A terminating pod does not count for topology spread.
bool counts_for_spread(const ClusterPod& pod) {
  return !pod.terminating;
}

bool has_rules(const ClusterPod& pod) {
  return pod.placement && !(pod.placement->anti_affinity.empty() &&
                            pod.placement->pod_affinity.empty() && pod.placement->spread.empty());
}

bool owns_terms(const ClusterPod& pod) {
  return is_live(pod) && pod.placement && !pod.placement->anti_affinity.empty();
}

// The constraint's selector, with the values of matchLabelKeys.
LabelSelector selector_of(const SpreadConstraint& constraint, const ClusterPod& pod) {
  LabelSelector selector = *constraint.selector;
  for (const std::string_view key : constraint.match_label_keys) {
    if (const auto value = find_label(pod.labels, key)) {
      selector.requirements.push_back({std::string(key), Operator::in, {std::string(*value)}});
    }
  }
  return selector;
}

}  // namespace

PlacementRules::PlacementRules() = default;
PlacementRules::~PlacementRules() = default;

// component-base of the scheduler, framework.GetAffinityTerms(): listed namespaces and those that
// the selector matches; without both that of the pod.
PodAffinityTerm PlacementRules::resolved(const ClusterView& view, const ClusterPod& pod,
                                         PodAffinityTerm term) const {
  if (term.namespaces.empty() && !term.namespace_selector) {
    term.namespaces.push_back(pod.pod_namespace);
  }
  if (term.namespace_selector) {
    for (const ClusterNamespace& each : view.snapshot().namespaces) {
      if (matches(*term.namespace_selector, each.labels)) term.namespaces.push_back(each.name);
    }
    term.namespace_selector.reset();
  }
  std::ranges::sort(term.namespaces);
  const auto repeated = std::ranges::unique(term.namespaces);
  term.namespaces.erase(repeated.begin(), repeated.end());
  return term;
}

PlacementRules::Group& PlacementRules::intern(std::vector<PodAffinityTerm> rules,
                                              std::string_view topology_key,
                                              const CountedNodes* nodes) {
  TextKey key;
  key.add(topology_key);
  key.add(reinterpret_cast<std::size_t>(nodes));
  for (const PodAffinityTerm& rule : rules) {
    key.add(rule.namespaces.size());
    for (const std::string_view each : rule.namespaces) key.add(each);
    key.add(rule.selector->requirements);
  }
  const auto [known, is_new] = by_text_.try_emplace(std::move(key).take());
  if (!is_new) return *known->second;
  Group& added = groups_.emplace_back();
  known->second = &added;
  added.rules = std::move(rules);
  added.topology = &domains_->of(topology_key);
  added.nodes = nodes;
  index_by_label(added);
  return added;
}

void PlacementRules::index_by_label(Group& group) {
  const auto& requirements = group.rules.front().selector->requirements;
  const auto listed = std::ranges::find(requirements, Operator::in, &Requirement::op);
  if (listed == requirements.end()) {
    without_label_.push_back(&group);
    return;
  }
  for (const std::string& value : listed->values) {
    Groups& groups = by_label_[listed->key][value];
    // A value may be listed twice.
    if (groups.empty() || groups.back() != &group) groups.push_back(&group);
  }
}

PlacementRules::PodClass& PlacementRules::class_of(const ClusterView& view, std::size_t pod) {
  const PodClassId id = view.class_of(pod);
  if (id >= classes_.size()) classes_.resize(std::size_t{id} + 1);
  return classes_[id];
}

// Interns the terms once for all pods of its class.
void PlacementRules::count_owner(const ClusterView& view, std::size_t index) {
  const ClusterPod& pod = view.pod(index);
  PodClass& of = class_of(view, index);
  if (of.owned.empty()) {
    for (const PodAffinityTerm& each : pod.placement->anti_affinity) {
      if (!each.selector) continue;  // selects nothing
      Group& group = intern({resolved(view, pod, each)}, each.topology_key, nullptr);
      group.is_owned = true;
      if (std::ranges::find(of.owned, &group) == of.owned.end()) of.owned.push_back(&group);
    }
  }
  const auto node = view.place_of(index);
  if (!node) return;
  for (Group* const each : of.owned) count_at(each->owners, each->topology->of(*node), 1);
}

void PlacementRules::start(const ClusterView& view) {
  started_ = true;
  followed_ = view.place_changes().size();
  domains_ = std::make_unique<NodeDomainIndex>(view);
  between_pods_ = std::ranges::any_of(view.snapshot().pods, [](const ClusterPod& each) {
    return is_live(each) && (has_rules(each) || !each.host_ports.empty());
  });
  if (!between_pods_) return;
  std::vector<PodIndex> first;  // of each class
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    const ClusterPod& pod = view.pod(i);
    if (!view.summary(i).live) continue;
    PodClass& of = class_of(view, i);
    if (of.live.empty()) first.push_back(i);
    of.live.push_back(i);
    const auto place = view.place_of(i);
    if (!pod.host_ports.empty() && place) with_ports_[*place].push_back(i);
    if (owns_terms(pod)) count_owner(view, i);
  }
  live_ = std::make_unique<LabelIndex>(view, std::move(first));
  std::vector<NodeIndex> nodes(view.snapshot().nodes.size());
  for (NodeIndex i = 0; i < nodes.size(); ++i) nodes[i] = i;
  eligible_ = std::make_unique<EligibleNodes>(view, nodes);
}

const PlacementRules::Groups& PlacementRules::selecting(const ClusterPod& pod, PodClass& of) {
  if (of.listed.empty()) {
    of.listed.push_back(&without_label_);
    for (const auto& [key, value] : pod.labels) of.listed.push_back(&by_label_[key][value]);
  }
  std::size_t listed = 0;
  for (const Groups* const each : of.listed) listed += each->size();
  // Groups are only added.
  if (of.compared == listed) return of.all_selecting;
  of.compared = listed;
  of.all_selecting.clear();
  for (const Groups* const list : of.listed) {
    for (Group* const each : *list) {
      if (all_select(each->rules, pod)) of.all_selecting.push_back(each);
    }
  }
  return of.all_selecting;
}

void PlacementRules::count_selected(const ClusterView& view, Group& group) {
  if (group.counted) return;
  group.counted = true;
  for (const PodIndex first : live_->matching(*group.rules.front().selector)) {
    if (!all_select(group.rules, view.pod(first))) continue;
    for (const PodIndex each : class_of(view, first).live) {
      const auto node = view.place_of(each);
      if (!node) continue;
      if (group.nodes != nullptr &&
          !(group.nodes->contains[*node] && counts_for_spread(view.pod(each)))) {
        continue;
      }
      count_at(group.selected, group.topology->of(*node), 1);
    }
  }
}

void PlacementRules::follow(const ClusterView& view) {
  const auto& changes = view.place_changes();
  if (followed_ != changes.size()) pod_.reset();
  for (; followed_ < changes.size(); ++followed_) {
    const PlaceChange& change = changes[followed_];
    const ClusterPod& pod = view.pod(change.pod);
    if (!view.summary(change.pod).live) continue;
    const auto count = [&](DomainCounts& counts, const Group& group) {
      const auto count_one = [&](NodeIndex node, std::int32_t difference) {
        if (group.nodes != nullptr && !(group.nodes->contains[node] && counts_for_spread(pod))) {
          return;
        }
        count_at(counts, group.topology->of(node), difference);
      };
      count_one(change.from, -1);
      if (change.to) count_one(*change.to, 1);
    };
    PodClass& of = class_of(view, change.pod);
    if (owns_terms(pod)) {
      for (Group* const each : of.owned) count(each->owners, *each);
    }
    for (Group* const each : selecting(pod, of)) {
      if (each->counted) count(each->selected, *each);
    }
    if (pod.host_ports.empty()) continue;
    std::erase(with_ports_[change.from], change.pod);
    if (change.to) with_ports_[*change.to].push_back(change.pod);
  }
}

const PlacementRules::CountedNodes& PlacementRules::counted_nodes(
    const ClusterView& view, const ClusterPod& pod, const SpreadConstraint& constraint) {
  std::vector<std::string_view> keys{constraint.topology_key};
  for (const SpreadConstraint& each : pod.placement->spread) {
    if (each.when_unsatisfiable == kDoNotSchedule) keys.push_back(each.topology_key);
  }
  const std::vector<NodeIndex>& nodes =
      eligible_->of(pod, {constraint.honors_node_affinity, constraint.honors_node_taints});
  const auto [known, is_new] = counted_nodes_.try_emplace({&nodes, keys});
  CountedNodes& counted = known->second;
  if (!is_new) return counted;
  counted.contains.resize(view.snapshot().nodes.size());
  std::vector<DomainId> values;
  std::vector<const NodeDomains*> topologies;
  for (const std::string_view key : keys) topologies.push_back(&domains_->of(key));
  for (const NodeIndex node : nodes) {
    const bool has_all = std::ranges::all_of(
        topologies, [&](const NodeDomains* each) { return each->of(node) != kNoDomainId; });
    if (!has_all) continue;
    counted.contains[node] = true;
    values.push_back(topologies.front()->of(node));
  }
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
  counted.domains = values.size();
  return counted;
}

void PlacementRules::add_affinity(const ClusterView& view, const ClusterPod& pod, PodClass& to) {
  const auto& terms = pod.placement->pod_affinity;
  if (terms.empty()) return;
  to.unsatisfiable =
      std::ranges::any_of(terms, [](const PodAffinityTerm& each) { return !each.selector; });
  if (to.unsatisfiable) return;
  std::vector<PodAffinityTerm> rules;
  for (const PodAffinityTerm& each : terms) rules.push_back(resolved(view, pod, each));
  const bool selects_itself = all_select(rules, pod);
  for (const PodAffinityTerm& each : terms) {
    Group& group = intern(rules, each.topology_key, nullptr);
    count_selected(view, group);
    CountedPods& counted = to.affinity.emplace_back();
    counted.topology = group.topology;
    counted.counts = &group.selected;
    counted.selects_itself = selects_itself;
  }
}

void PlacementRules::add_spread(const ClusterView& view, const ClusterPod& pod, PodClass& to) {
  for (const SpreadConstraint& each : pod.placement->spread) {
    if (each.when_unsatisfiable != kDoNotSchedule) continue;
    PodAffinityTerm rule;
    rule.namespaces = {pod.pod_namespace};
    // Without a selector it selects nothing.
    rule.selector =
        each.selector ? selector_of(each, pod) : LabelSelector{{{"", Operator::in, {}}}};
    const CountedNodes& nodes = counted_nodes(view, pod, each);
    Group& group = intern({std::move(rule)}, each.topology_key, &nodes);
    count_selected(view, group);
    to.spread.push_back({&group, &each, all_select(group.rules, pod)});
  }
}

void PlacementRules::prepare_class(const ClusterView& view, const ClusterPod& pod, PodClass& of) {
  if (of.is_prepared) return;
  of.is_prepared = true;
  for (Group* const each : of.owned) count_selected(view, *each);
  // Groups that are added later have no owners.
  of.selecting = selecting(pod, of);
  std::erase_if(of.selecting, [](const Group* each) { return !each->is_owned; });
  if (!pod.placement || !view.corrects(Correction::scheduler_filters)) return;
  add_affinity(view, pod, of);
  add_spread(view, pod, of);
}

// `owns`: the pod has the terms of its class. Nothing: the pod is counted nowhere.
void PlacementRules::add_repelling(const PodClass& of, bool owns,
                                   std::optional<std::size_t> place) {
  const auto add = [&](const Group& group, const DomainCounts& counts, bool counts_itself) {
    CountedPods& added = rules_.repelling_.emplace_back();
    added.topology = group.topology;
    added.counts = &counts;
    if (counts_itself && place) added.own_domain = group.topology->of(*place);
    added.set_most(0);
  };
  const auto is_in = [](const Groups& list, const Group* group) {
    return std::ranges::find(list, group) != list.end();
  };
  if (owns) {
    for (const Group* const each : of.owned) {
      add(*each, each->selected, is_in(of.selecting, each));
    }
  }
  for (const Group* const each : of.selecting) {
    if (each->owners.total() > 0) add(*each, each->owners, owns && is_in(of.owned, each));
  }
}

void PlacementRules::add_counts(const ClusterPod& pod, const PodClass& of,
                                std::optional<std::size_t> place) {
  rules_.unsatisfiable_ = of.unsatisfiable;
  rules_.affinity_ = of.affinity;
  for (CountedPods& each : rules_.affinity_) {
    if (place && each.selects_itself) each.own_domain = each.topology->of(*place);
  }
  rules_.spread_.clear();
  for (const Spread& each : of.spread) {
    const CountedNodes& nodes = *each.group->nodes;
    CountedPods& added = rules_.spread_.emplace_back();
    added.topology = each.group->topology;
    added.counts = &each.group->selected;
    added.selects_itself = each.selects_itself;
    if (place && each.selects_itself && counts_for_spread(pod) && nodes.contains[*place]) {
      added.own_domain = added.topology->of(*place);
    }
    const bool few = static_cast<std::int64_t>(nodes.domains) < each.constraint->min_domains;
    const std::int64_t least = few ? 0 : added.counts->least(nodes.domains, added.own_domain);
    added.set_most(each.constraint->max_skew + least - (each.selects_itself ? 1 : 0));
  }
}

void PlacementRules::prepare(const ClusterView& view, std::size_t index) {
  if (!started_) start(view);
  if (!between_pods_) return;
  follow(view);
  if (pod_ == index) return;
  pod_ = index;
  const ClusterPod& pod = view.pod(index);
  rules_.view_ = &view;
  rules_.pod_ = index;
  rules_.with_ports_ = pod.host_ports.empty() ? nullptr : &with_ports_;
  PodClass& of = class_of(view, index);
  prepare_class(view, pod, of);
  // A pod that has ended is not counted anywhere.
  const auto place = view.summary(index).live ? view.place_of(index) : std::nullopt;
  rules_.repelling_.clear();
  add_repelling(of, owns_terms(pod), place);
  add_counts(pod, of, place);
}

}  // namespace forestall::rebalance
