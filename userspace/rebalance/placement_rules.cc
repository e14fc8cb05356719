// SPDX-License-Identifier: Apache-2.0
#include "rebalance/placement_rules.h"

#include <algorithm>
#include <span>

#include "rebalance/cluster_view.h"
#include "rebalance/eligible_nodes.h"
#include "rebalance/label_index.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kDoNotSchedule = "DoNotSchedule";
constexpr std::string_view kAllAddresses = "0.0.0.0";

void count_at(DomainCounts& counts, const Node& node, std::string_view topology_key,
              std::int64_t change) {
  if (const auto value = find_label(node.labels, topology_key)) counts.add(*value, change);
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

bool is_all(std::string_view address) {
  return address.empty() || address == kAllAddresses;
}

bool conflict(const HostPort& a, const HostPort& b) {
  return a.port == b.port && a.protocol == b.protocol &&
         (is_all(a.address) || is_all(b.address) || a.address == b.address);
}

bool has_rules(const ClusterPod& pod) {
  return pod.placement && !(pod.placement->anti_affinity.empty() &&
                            pod.placement->pod_affinity.empty() && pod.placement->spread.empty());
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

void DomainCounts::add(std::string_view value, std::int64_t change) {
  std::int64_t& count = counts_[value];
  const auto forget = domains_.find(count);
  if (count != 0 && forget != domains_.end()) {
    --occupied_;
    if (--forget->second == 0) domains_.erase(forget);
  }
  count += change;
  total_ += change;
  if (count == 0) return;
  ++occupied_;
  ++domains_[count];
}

std::int64_t DomainCounts::least(std::size_t domains,
                                 std::optional<std::string_view> without) const {
  const std::int64_t own = without ? of(*without) : 0;
  const std::size_t occupied = occupied_ - (own == 1 ? 1 : 0);
  if (occupied < domains || domains_.empty()) return 0;
  const std::int64_t least = domains_.begin()->first;
  return own > 0 ? std::min(least, own - 1) : least;
}

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
  added.topology_key = topology_key;
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

void PlacementRules::add_owned_terms(const ClusterView& view, std::size_t index) {
  const ClusterPod& pod = view.pod(index);
  const auto node = view.place_of(index);
  Groups& groups = of_pod_[index];
  for (const PodAffinityTerm& each : pod.placement->anti_affinity) {
    if (!each.selector) continue;  // selects nothing
    Group& group = intern({resolved(view, pod, each)}, each.topology_key, nullptr);
    if (std::ranges::find(groups, &group) != groups.end()) continue;
    groups.push_back(&group);
    if (node) count_at(group.owners, view.node(*node), each.topology_key, 1);
  }
}

void PlacementRules::start(const ClusterView& view) {
  started_ = true;
  followed_ = view.place_changes().size();
  std::vector<PodIndex> live;
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    const ClusterPod& pod = view.pod(i);
    if (!is_live(pod)) continue;
    live.push_back(i);
    const auto place = view.place_of(i);
    if (!pod.host_ports.empty() && place) with_ports_[*place].push_back(i);
    between_pods_ = between_pods_ || has_rules(pod) || !pod.host_ports.empty();
    if (pod.placement && !pod.placement->anti_affinity.empty()) add_owned_terms(view, i);
  }
  live_ = std::make_unique<LabelIndex>(view, std::move(live));
  std::vector<NodeIndex> nodes(view.snapshot().nodes.size());
  for (NodeIndex i = 0; i < nodes.size(); ++i) nodes[i] = i;
  eligible_ = std::make_unique<EligibleNodes>(view, nodes);
}

PlacementRules::Groups PlacementRules::selecting(const ClusterPod& pod) const {
  Groups found;
  const auto add = [&](const Groups& groups) {
    for (Group* const each : groups) {
      if (all_select(each->rules, pod)) found.push_back(each);
    }
  };
  add(without_label_);
  for (const auto& [key, value] : pod.labels) {
    const auto values = by_label_.find(key);
    if (values == by_label_.end()) continue;
    const auto groups = values->second.find(value);
    if (groups != values->second.end()) add(groups->second);
  }
  return found;
}

void PlacementRules::count_selected(const ClusterView& view, Group& group) {
  if (group.counted) return;
  group.counted = true;
  for (const PodIndex each : live_->matching(*group.rules.front().selector)) {
    const auto node = view.place_of(each);
    if (!node || !all_select(group.rules, view.pod(each))) continue;
    if (group.nodes != nullptr &&
        !(group.nodes->contains[*node] && counts_for_spread(view.pod(each)))) {
      continue;
    }
    count_at(group.selected, view.node(*node), group.topology_key, 1);
  }
}

void PlacementRules::follow(const ClusterView& view) {
  const auto& changes = view.place_changes();
  if (followed_ != changes.size()) pod_.reset();
  for (; followed_ < changes.size(); ++followed_) {
    const PlaceChange& change = changes[followed_];
    const ClusterPod& pod = view.pod(change.pod);
    if (!is_live(pod)) continue;
    const auto count = [&](DomainCounts& counts, const Group& group) {
      const auto count_one = [&](NodeIndex node, std::int64_t difference) {
        if (group.nodes != nullptr && !(group.nodes->contains[node] && counts_for_spread(pod))) {
          return;
        }
        count_at(counts, view.node(node), group.topology_key, difference);
      };
      count_one(change.from, -1);
      if (change.to) count_one(*change.to, 1);
    };
    if (const auto own = of_pod_.find(change.pod); own != of_pod_.end()) {
      for (Group* const each : own->second) count(each->owners, *each);
    }
    for (Group* const each : selecting(pod)) {
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
  std::vector<std::string_view> values;
  for (const NodeIndex node : nodes) {
    const Labels& labels = view.node(node).labels;
    const bool has_all = std::ranges::all_of(
        keys, [&](std::string_view key) { return find_label(labels, key).has_value(); });
    if (!has_all) continue;
    counted.contains[node] = true;
    values.push_back(*find_label(labels, constraint.topology_key));
  }
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
  counted.domains = values.size();
  return counted;
}

void PlacementRules::prepare_affinity(const ClusterView& view, const ClusterPod& pod,
                                      const Node* place) {
  const auto& terms = pod.placement->pod_affinity;
  if (terms.empty()) return;
  unsatisfiable_ =
      std::ranges::any_of(terms, [](const PodAffinityTerm& each) { return !each.selector; });
  if (unsatisfiable_) return;
  std::vector<PodAffinityTerm> rules;
  for (const PodAffinityTerm& each : terms) rules.push_back(resolved(view, pod, each));
  for (const PodAffinityTerm& each : terms) {
    Group& group = intern(rules, each.topology_key, nullptr);
    count_selected(view, group);
    Checked checked;
    checked.group = &group;
    checked.counts = &group.selected;
    checked.selects_itself = all_select(rules, pod);
    if (place != nullptr && checked.selects_itself) {
      checked.own_value = find_label(place->labels, each.topology_key);
    }
    affinity_.push_back(checked);
  }
}

void PlacementRules::prepare_spread(const ClusterView& view, const ClusterPod& pod,
                                    const Node* place) {
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
    Checked checked;
    checked.group = &group;
    checked.counts = &group.selected;
    checked.constraint = &each;
    checked.selects_itself = all_select(group.rules, pod);
    if (place != nullptr && checked.selects_itself && counts_for_spread(pod) &&
        nodes.contains[static_cast<std::size_t>(place - view.snapshot().nodes.data())]) {
      checked.own_value = find_label(place->labels, each.topology_key);
    }
    spread_.push_back(checked);
  }
}

void PlacementRules::prepare(const ClusterView& view, std::size_t index) {
  if (!started_) start(view);
  if (!between_pods_) return;
  follow(view);
  if (pod_ == index) return;
  pod_ = index;
  repelling_.clear();
  affinity_.clear();
  spread_.clear();
  unsatisfiable_ = false;
  const ClusterPod& pod = view.pod(index);
  const auto at = view.place_of(index);
  // A pod that has ended is not counted anywhere.
  const Node* const place = at && is_live(pod) ? &view.node(*at) : nullptr;
  const auto add = [&](const Group& group, const DomainCounts& counts, bool counts_itself) {
    std::optional<std::string_view> own;
    if (counts_itself && place != nullptr) own = find_label(place->labels, group.topology_key);
    Checked& added = repelling_.emplace_back();
    added.group = &group;
    added.counts = &counts;
    added.own_value = own;
  };
  const Groups selecting_it = selecting(pod);
  const auto own = of_pod_.find(index);
  std::span<Group* const> its_terms;
  if (own != of_pod_.end()) its_terms = own->second;
  const auto is_in = [](std::span<Group* const> list, const Group* group) {
    return std::ranges::find(list, group) != list.end();
  };
  for (Group* const each : its_terms) {
    count_selected(view, *each);
    add(*each, each->selected, is_in(selecting_it, each));
  }
  for (Group* const each : selecting_it) {
    if (each->owners.total() > 0) add(*each, each->owners, is_in(its_terms, each));
  }
  if (!pod.placement || !view.corrects(Correction::scheduler_filters)) return;
  prepare_affinity(view, pod, place);
  prepare_spread(view, pod, place);
}

bool PlacementRules::repel(const ClusterView& view, std::size_t pod, const Node& node) {
  prepare(view, pod);
  if (!between_pods_) return false;
  return std::ranges::any_of(repelling_, [&](const Checked& each) {
    const auto value = find_label(node.labels, each.group->topology_key);
    return value && each.others_in(*value) > 0;
  });
}

// satisfyPodAffinity(): the first pod of a series with affinity only to each other may go anywhere.
bool PlacementRules::has_affinity(const Node& node) const {
  if (unsatisfiable_) return false;
  bool found = true;
  std::int64_t others = 0;
  for (const Checked& each : affinity_) {
    const auto value = find_label(node.labels, each.group->topology_key);
    if (!value) return false;
    if (each.others_in(*value) <= 0) found = false;
    others += each.counts->total() - (each.own_value ? 1 : 0);
  }
  return found || (others == 0 && affinity_.front().selects_itself);
}

// podtopologyspread Filter().
bool PlacementRules::keeps_spread(const Node& node) const {
  return std::ranges::all_of(spread_, [&](const Checked& each) {
    const auto value = find_label(node.labels, each.group->topology_key);
    if (!value) return false;
    const std::size_t domains = each.group->nodes->domains;
    const bool few = static_cast<std::int64_t>(domains) < each.constraint->min_domains;
    const std::int64_t least = few ? 0 : each.counts->least(domains, each.own_value);
    const std::int64_t self = each.selects_itself ? 1 : 0;
    return each.others_in(*value) + self - least <= each.constraint->max_skew;
  });
}

bool PlacementRules::has_ports(const ClusterView& view, std::size_t pod, std::size_t node) const {
  const auto& wanted = view.pod(pod).host_ports;
  if (wanted.empty()) return true;
  const auto taken = with_ports_.find(node);
  return taken == with_ports_.end() || std::ranges::none_of(taken->second, [&](std::size_t other) {
           return other != pod && std::ranges::any_of(wanted, [&](const HostPort& want) {
                    return std::ranges::any_of(
                        view.pod(other).host_ports,
                        [&](const HostPort& has) { return conflict(want, has); });
                  });
         });
}

PlacementProblem PlacementRules::problem(const ClusterView& view, std::size_t pod,
                                         std::size_t node) {
  prepare(view, pod);
  if (!between_pods_) return PlacementProblem::none;
  if (!has_ports(view, pod, node)) return PlacementProblem::ports;
  if (!has_affinity(view.node(node))) return PlacementProblem::pod_affinity;
  return keeps_spread(view.node(node)) ? PlacementProblem::none : PlacementProblem::spread;
}

}  // namespace forestall::rebalance
