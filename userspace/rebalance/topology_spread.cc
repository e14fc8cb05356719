// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingTopologySpreadConstraint. minDomains is ignored.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rebalance/eligible_nodes.h"
#include "rebalance/label_index.h"
#include "rebalance/node_fit.h"
#include "rebalance/plugins.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

constexpr std::size_t kNoDomain = std::numeric_limits<std::size_t>::max();

// The domains that one label makes of the session's nodes.
struct Topology {
  std::vector<std::string_view> values;  // of the label, sorted
  std::vector<std::size_t> domain_of;    // by node: index of its value, or kNoDomain
};

// The nodes of each domain that a constraint counts.
struct IncludedNodes {
  std::vector<std::vector<NodeIndex>> by_domain;
  std::size_t domains = 0;  // that have such nodes
};

// Computed once for all constraints with equal rules.
class Topologies {
 public:
  explicit Topologies(PluginSession& session) : session_(session) {}

  const Topology& by_label(std::string_view key) {
    const auto [known, is_new] = topologies_.try_emplace(key);
    Topology& topology = known->second;
    if (!is_new) return topology;
    std::map<std::string_view, std::vector<NodeIndex>> by_value;
    for (const NodeIndex each : session_.nodes()) {
      const auto value = find_label(session_.view().node(each).labels, key);
      if (value) by_value[*value].push_back(each);
    }
    topology.domain_of.assign(session_.view().snapshot().nodes.size(), kNoDomain);
    for (const auto& [value, nodes] : by_value) {
      for (const NodeIndex each : nodes) topology.domain_of[each] = topology.values.size();
      topology.values.push_back(value);
    }
    return topology;
  }

  const IncludedNodes& included(const Topology& topology, const std::vector<NodeIndex>& nodes) {
    const auto [known, is_new] = included_.try_emplace({&topology, &nodes});
    IncludedNodes& out = known->second;
    if (!is_new) return out;
    out.by_domain.resize(topology.values.size());
    for (const NodeIndex each : nodes) {
      const std::size_t domain = topology.domain_of[each];
      if (domain == kNoDomain) continue;
      if (out.by_domain[domain].empty()) ++out.domains;
      out.by_domain[domain].push_back(each);
    }
    return out;
  }

 private:
  PluginSession& session_;
  std::map<std::string_view, Topology> topologies_;
  std::map<std::pair<const Topology*, const std::vector<NodeIndex>*>, IncludedNodes> included_;
};

// With the nodes of the domain to which the pod is to move.
using ChosenPods = std::map<PodIndex, std::span<const NodeIndex>>;

struct EffectiveConstraint {
  const SpreadConstraint* declared = nullptr;
  // That its pod's affinity and tolerations admit, as far as the constraint honors them.
  const std::vector<NodeIndex>* nodes = nullptr;
  LabelSelector selector;  // with the values of matchLabelKeys
};

std::string key_of(const EffectiveConstraint& constraint) {
  TextKey key;
  key.add(static_cast<std::size_t>(constraint.declared->max_skew));
  key.add(constraint.declared->topology_key);
  key.add(reinterpret_cast<std::size_t>(constraint.nodes));
  key.add(constraint.selector.requirements);
  return std::move(key).take();
}

// The distinct constraints of the pods of one namespace.
std::vector<EffectiveConstraint> constraints_of(const ClusterView& view,
                                                const TopologySpreadArgs& args,
                                                const std::vector<PodIndex>& pods,
                                                EligibleNodes& eligible) {
  std::vector<EffectiveConstraint> all;
  std::unordered_set<std::string> known;
  for (const PodIndex index : pods) {
    const ClusterPod& pod = view.pod(index);
    if (!pod.placement) continue;
    for (const SpreadConstraint& each : pod.placement->spread) {
      const bool wanted = std::find(args.constraints.begin(), args.constraints.end(),
                                    each.when_unsatisfiable) != args.constraints.end();
      // Without a selector it selects nothing, and is balanced.
      if (!wanted || !each.selector) continue;
      EffectiveConstraint constraint;
      constraint.declared = &each;
      constraint.nodes = &eligible.of(pod, {each.honors_node_affinity, each.honors_node_taints});
      constraint.selector = *each.selector;
      for (const std::string_view key : each.match_label_keys) {
        const auto value = find_label(pod.labels, key);
        if (!value) continue;
        constraint.selector.requirements.push_back(
            {std::string(key), Operator::in, {std::string(*value)}});
      }
      if (known.insert(key_of(constraint)).second) all.push_back(std::move(constraint));
    }
  }
  return all;
}

struct Domain {
  std::size_t index = 0;  // in the topology, which is the order of the label's values
  std::vector<PodIndex> pods;
};

// The balancing of one constraint in one namespace.
class Balancer {
 public:
  Balancer(PluginSession& session, const TopologySpreadArgs& args,
           const EffectiveConstraint& constraint, Topologies& topologies, ChosenPods& chosen)
      : session_(session),
        args_(args),
        constraint_(constraint),
        topology_(topologies.by_label(constraint.declared->topology_key)),
        included_(topologies.included(topology_, *constraint.nodes)),
        chosen_(chosen) {}

  // `pods` are those of the namespace that the constraint selects.
  void balance(const std::vector<PodIndex>& pods) {
    collect(pods);
    if (domain_count() == 0 || is_balanced()) return;
    average_ = static_cast<double>(counted_) / static_cast<double>(domain_count());
    for (auto& [index, members] : by_domain_) sort_pods(members);
    order_domains();
    find_nodes_below_average();
    move_pods_between();
  }

 private:
  [[nodiscard]] const ClusterPod& pod(PodIndex index) const { return session_.view().pod(index); }
  [[nodiscard]] double size(std::size_t domain) const {
    return static_cast<double>(domains_[domain].pods.size());
  }
  // Included domains, and those of other nodes with pods that count.
  [[nodiscard]] std::size_t domain_count() const { return included_.domains + additional_; }

  void collect(const std::vector<PodIndex>& pods) {
    for (const PodIndex each : pods) {
      if (pod(each).terminating) continue;
      const auto node = session_.view().find_node(pod(each).node);
      const std::size_t domain = node ? topology_.domain_of[*node] : kNoDomain;
      if (domain == kNoDomain) continue;
      const auto [members, is_new] = by_domain_.try_emplace(domain);
      if (is_new && included_.by_domain[domain].empty()) ++additional_;
      members->second.push_back(each);
      ++counted_;
    }
  }

  [[nodiscard]] bool is_balanced() const {
    std::size_t most = 0;
    std::size_t least = by_domain_.size() < domain_count() ? 0 : counted_;
    for (const auto& [index, members] : by_domain_) {
      most = std::max(most, members.size());
      least = std::min(least, members.size());
    }
    return most - least <= static_cast<std::size_t>(std::max(constraint_.declared->max_skew, 0));
  }

  // Pods are taken from the end: first those without node selector and affinity, of these the
  // highest priority. (The descheduler inverts its own comparison.)
  void sort_pods(std::vector<PodIndex>& pods) const {
    const auto key = [&](PodIndex index) {
      const ClusterPod& each = pod(index);
      const bool bound = each.placement && (!each.placement->node_selector.empty() ||
                                            each.placement->has_node_affinity);
      return std::tuple(!bound, each.priority.has_value(), each.priority.value_or(0), index);
    };
    std::sort(pods.begin(), pods.end(), [&](PodIndex a, PodIndex b) { return key(a) < key(b); });
  }

  // By their sizes, then by value.
  void order_domains() {
    for (std::size_t i = 0; i < included_.by_domain.size(); ++i) {
      if (!included_.by_domain[i].empty() && !by_domain_.contains(i)) domains_.push_back({i, {}});
    }
    const auto with_pods = static_cast<std::ptrdiff_t>(domains_.size());
    for (auto& [index, members] : by_domain_) domains_.push_back({index, std::move(members)});
    std::stable_sort(
        domains_.begin() + with_pods, domains_.end(),
        [](const Domain& a, const Domain& b) { return a.pods.size() < b.pods.size(); });
  }

  void find_nodes_below_average() {
    for (const Domain& domain : domains_) {
      if (static_cast<double>(domain.pods.size()) >= average_) continue;
      const std::vector<NodeIndex>& nodes = included_.by_domain[domain.index];
      below_.insert(below_.end(), nodes.begin(), nodes.end());
    }
  }

  [[nodiscard]] bool fits_below(PodIndex index) {
    const auto [known, is_new] = fits_below_.try_emplace(index, false);
    if (is_new) known->second = fits_any_other(session_.view(), index, below_);
    return known->second;
  }

  // Takes pods from the largest domains for the smallest ones until both are near the average.
  void move_pods_between() {
    std::size_t low = 0;
    std::size_t high = domains_.size() - 1;
    while (low < high) {
      if (size(high) <= average_) --high;
      const double skew = size(high) - size(low);
      const double max_skew = constraint_.declared->max_skew;
      if (skew <= max_skew) {
        ++low;
        continue;
      }
      const double above = std::ceil(size(high) - average_);
      const double below = std::ceil(average_ - size(low));
      const double half = std::ceil((skew - max_skew) / 2);
      const double moved = std::min({above, below, half});
      if (moved <= 0) {
        ++low;
        continue;
      }
      move(high, low, static_cast<std::size_t>(moved));
    }
  }

  // Pods that do not fit below the average count as moved, so that the loop ends.
  void move(std::size_t from, std::size_t to, std::size_t count) {
    std::vector<PodIndex>& source = domains_[from].pods;
    std::stable_sort(source.begin(), source.end(),
                     [&](PodIndex a, PodIndex b) { return !fits_below(a) && fits_below(b); });
    const auto first = source.end() - static_cast<std::ptrdiff_t>(count);
    const std::vector<PodIndex> taken(first, source.end());
    source.erase(first, source.end());
    for (const PodIndex each : taken) {
      if (!args_.node_fit || fits_below(each)) {
        chosen_.try_emplace(each, included_.by_domain[domains_[to].index]);
      }
    }
    domains_[to].pods.insert(domains_[to].pods.end(), taken.begin(), taken.end());
  }

  PluginSession& session_;
  const TopologySpreadArgs& args_;
  const EffectiveConstraint& constraint_;
  const Topology& topology_;
  const IncludedNodes& included_;
  ChosenPods& chosen_;
  std::map<std::size_t, std::vector<PodIndex>> by_domain_;  // without empty domains
  std::size_t additional_ = 0;  // domains that count only because they have pods
  std::size_t counted_ = 0;     // pods
  std::vector<Domain> domains_;
  double average_ = 0;
  std::vector<NodeIndex> below_;
  std::map<PodIndex, bool> fits_below_;
};

// The pods that the descheduler would try to evict, in the order of namespace and name. Its own
// order is random.
ChosenPods choose_pods(PluginSession& session, const TopologySpreadArgs& args,
                       EligibleNodes& eligible, Topologies& topologies) {
  const ClusterView& view = session.view();
  std::map<std::string_view, std::vector<PodIndex>> by_namespace;
  for (const NodeIndex node : session.nodes()) {
    for (const PodIndex each : live_pods(view, node)) {
      session.consider(each);
      if (!in_scope(args.scope, view.pod(each)) || !session.evictor().filter(each)) continue;
      by_namespace[view.pod(each).pod_namespace].push_back(each);
    }
  }
  ChosenPods chosen;
  for (auto& [name, pods] : by_namespace) {
    std::sort(pods.begin(), pods.end());
    LabelIndex index(view, pods);
    for (const EffectiveConstraint& each : constraints_of(view, args, pods, eligible)) {
      Balancer(session, args, each, topologies, chosen).balance(index.matching(each.selector));
    }
  }
  return chosen;
}

}  // namespace

void run_plugin(PluginSession& session, const TopologySpreadArgs& args) {
  const ClusterView& view = session.view();
  std::set<std::string_view> full_nodes;
  EligibleNodes eligible(view, session.nodes());
  Topologies topologies(session);
  const SharedText reason(std::string("its topology domain has too many pods"));
  for (const auto& [each, domain] : choose_pods(session, args, eligible, topologies)) {
    const Rooms rooms{.nodes = domain};
    const std::string_view node = view.pod(each).node;
    if (full_nodes.contains(node) || !session.evictor().pre_eviction_filter(each)) continue;
    const EvictResult result = session.evict(each, reason, &rooms);
    if (result == EvictResult::total_limit) return;
    if (result == EvictResult::node_limit) full_nodes.insert(node);
  }
}

}  // namespace forestall::rebalance
