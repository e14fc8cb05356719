// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingTopologySpreadConstraint. minDomains is ignored.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rebalance/node_fit.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

// A constraint with what it takes over from the pod that declares it. Two pods with an equal one
// are counted once.
struct Constraint {
  const SpreadConstraint* declared = nullptr;
  PodIndex declared_by = 0;
  LabelSelector selector;  // with the values of matchLabelKeys
};

struct Domain {
  std::string_view value;
  std::vector<PodIndex> pods;
};

bool same_tolerations(const ClusterPod& a, const ClusterPod& b) {
  const auto equal = [](const PodToleration& left, const PodToleration& right) {
    return left.key == right.key && left.value == right.value && left.exists == right.exists &&
           left.valid == right.valid && left.effect == right.effect;
  };
  return std::equal(a.tolerations.begin(), a.tolerations.end(), b.tolerations.begin(),
                    b.tolerations.end(), equal);
}

bool same_required_nodes(const ClusterPod& a, const ClusterPod& b) {
  return a.placement->node_selector == b.placement->node_selector &&
         a.placement->required_nodes == b.placement->required_nodes;
}

// A constraint that ignores the taints or the affinity of nodes does not depend on that of its pod.
bool same_constraint(const ClusterView& view, const Constraint& a, const Constraint& b) {
  const SpreadConstraint& left = *a.declared;
  const SpreadConstraint& right = *b.declared;
  if (left.max_skew != right.max_skew || left.topology_key != right.topology_key ||
      left.when_unsatisfiable != right.when_unsatisfiable ||
      left.honors_node_affinity != right.honors_node_affinity ||
      left.honors_node_taints != right.honors_node_taints || a.selector != b.selector) {
    return false;
  }
  const ClusterPod& left_pod = view.pod(a.declared_by);
  const ClusterPod& right_pod = view.pod(b.declared_by);
  return (!left.honors_node_taints || same_tolerations(left_pod, right_pod)) &&
         (!left.honors_node_affinity || same_required_nodes(left_pod, right_pod));
}

bool includes_node(const ClusterView& view, const Constraint& constraint, const Node& node) {
  const ClusterPod& pod = view.pod(constraint.declared_by);
  if (constraint.declared->honors_node_affinity && !matches_node(pod, node)) return false;
  return !constraint.declared->honors_node_taints || tolerates_node(pod, node);
}

// The distinct constraints of the pods of one namespace.
std::vector<Constraint> constraints_of(const ClusterView& view, const TopologySpreadArgs& args,
                                       const std::vector<PodIndex>& pods) {
  std::vector<Constraint> all;
  for (const PodIndex index : pods) {
    const ClusterPod& pod = view.pod(index);
    if (!pod.placement) continue;
    for (const SpreadConstraint& each : pod.placement->spread) {
      const bool wanted = std::find(args.constraints.begin(), args.constraints.end(),
                                    each.when_unsatisfiable) != args.constraints.end();
      // Without a selector it selects nothing, and is balanced.
      if (!wanted || !each.selector) continue;
      Constraint constraint{&each, index, *each.selector};
      for (const std::string_view key : each.match_label_keys) {
        const auto value = find_label(pod.labels, key);
        if (!value) continue;
        constraint.selector.requirements.push_back(
            {std::string(key), Operator::in, {std::string(*value)}});
      }
      const bool known = std::any_of(all.begin(), all.end(), [&](const Constraint& other) {
        return same_constraint(view, other, constraint);
      });
      if (!known) all.push_back(std::move(constraint));
    }
  }
  return all;
}

// The balancing of one constraint in one namespace.
class Balancer {
 public:
  Balancer(PluginSession& session, const TopologySpreadArgs& args, const Constraint& constraint,
           std::set<PodIndex>& chosen)
      : session_(session), args_(args), constraint_(constraint), chosen_(chosen) {}

  void balance(const std::vector<PodIndex>& pods) {
    collect(pods);
    if (domains_.empty() || is_balanced()) return;
    for (Domain& each : domains_) sort_pods(each);
    std::stable_sort(domains_.begin(), domains_.end(), [](const Domain& a, const Domain& b) {
      return a.pods.size() < b.pods.size();
    });
    find_nodes_below_average();
    move_pods_between();
  }

 private:
  [[nodiscard]] const Node& node(NodeIndex index) const { return session_.view().node(index); }
  [[nodiscard]] const ClusterPod& pod(PodIndex index) const { return session_.view().pod(index); }
  [[nodiscard]] double size(std::size_t domain) const {
    return static_cast<double>(domains_[domain].pods.size());
  }

  // Domains of all included nodes, also without pods, and of nodes with pods that count.
  void collect(const std::vector<PodIndex>& pods) {
    std::map<std::string_view, std::vector<PodIndex>> by_value;
    for (const NodeIndex each : session_.nodes()) {
      const auto value = find_label(node(each).labels, constraint_.declared->topology_key);
      if (value && includes_node(session_.view(), constraint_, node(each))) by_value[*value];
    }
    std::size_t count = 0;
    for (const PodIndex each : pods) {
      if (pod(each).terminating || !matches(constraint_.selector, pod(each).labels)) continue;
      const auto at = session_.view().find_node(pod(each).node);
      if (!at) continue;
      const auto value = find_label(node(*at).labels, constraint_.declared->topology_key);
      if (!value) continue;
      by_value[*value].push_back(each);
      ++count;
    }
    for (auto& [value, members] : by_value) domains_.push_back({value, std::move(members)});
    if (domains_.empty()) return;
    average_ = static_cast<double>(count) / static_cast<double>(domains_.size());
  }

  [[nodiscard]] bool is_balanced() const {
    const auto [least, most] = std::minmax_element(
        domains_.begin(), domains_.end(),
        [](const Domain& a, const Domain& b) { return a.pods.size() < b.pods.size(); });
    return most->pods.size() - least->pods.size() <=
           static_cast<std::size_t>(std::max(constraint_.declared->max_skew, 0));
  }

  // Pods are taken from the end: first those without node selector and affinity, of these the
  // highest priority. (The descheduler inverts its own comparison.)
  void sort_pods(Domain& domain) const {
    const auto key = [&](PodIndex index) {
      const ClusterPod& each = pod(index);
      const bool bound = each.placement && (!each.placement->node_selector.empty() ||
                                            each.placement->has_node_affinity);
      return std::tuple(!bound, each.priority.has_value(), each.priority.value_or(0), index);
    };
    std::sort(domain.pods.begin(), domain.pods.end(),
              [&](PodIndex a, PodIndex b) { return key(a) < key(b); });
  }

  void find_nodes_below_average() {
    for (const Domain& domain : domains_) {
      if (static_cast<double>(domain.pods.size()) >= average_) continue;
      for (const NodeIndex each : session_.nodes()) {
        const auto value = find_label(node(each).labels, constraint_.declared->topology_key);
        if (value == domain.value && includes_node(session_.view(), constraint_, node(each))) {
          below_.push_back(each);
        }
      }
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
      if (!args_.node_fit || fits_below(each)) chosen_.insert(each);
    }
    domains_[to].pods.insert(domains_[to].pods.end(), taken.begin(), taken.end());
  }

  PluginSession& session_;
  const TopologySpreadArgs& args_;
  const Constraint& constraint_;
  std::set<PodIndex>& chosen_;
  std::vector<Domain> domains_;
  double average_ = 0;
  std::vector<NodeIndex> below_;
  std::map<PodIndex, bool> fits_below_;
};

}  // namespace

void run_plugin(PluginSession& session, const TopologySpreadArgs& args) {
  const ClusterView& view = session.view();
  std::map<std::string_view, std::vector<PodIndex>> by_namespace;
  for (const NodeIndex node : session.nodes()) {
    for (const PodIndex each : live_pods(view, node)) {
      session.consider(each);
      if (!in_scope(args.scope, view.pod(each)) || !session.evictor().filter(each)) continue;
      by_namespace[view.pod(each).pod_namespace].push_back(each);
    }
  }
  // The order in which the descheduler evicts them is random.
  std::set<PodIndex> chosen;
  for (auto& [name, pods] : by_namespace) {
    std::sort(pods.begin(), pods.end());
    for (const Constraint& each : constraints_of(view, args, pods)) {
      Balancer(session, args, each, chosen).balance(pods);
    }
  }
  std::set<std::string_view> full_nodes;
  for (const PodIndex each : chosen) {
    const std::string_view node = view.pod(each).node;
    if (full_nodes.contains(node) || !session.evictor().pre_eviction_filter(each)) continue;
    const EvictResult result = session.evict(each, "its topology domain has too many pods");
    if (result == EvictResult::total_limit) return;
    if (result == EvictResult::node_limit) full_nodes.insert(node);
  }
}

}  // namespace forestall::rebalance
