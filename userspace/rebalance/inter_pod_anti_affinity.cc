// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingInterPodAntiAffinity.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/label_index.h"
#include "rebalance/node_domain_index.h"
#include "rebalance/node_fit.h"
#include "rebalance/plugins.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

using PodsByDomain = std::vector<std::pair<DomainId, PodIndex>>;  // sorted

// The live pods of the session in the scope of the plugin, by node, and by namespace, selector and
// topology domain. Evicted pods are taken out.
class DomainIndex {
 public:
  DomainIndex(PluginSession& session, const PodScope& scope)
      : view_(session.view()),
        topologies_(view_),
        by_node_(view_.snapshot().nodes.size()),
        violating_(view_.snapshot().pods.size()),
        gone_(view_.snapshot().pods.size()) {
    std::vector<bool> is_listed(gone_.size());
    for (const NodeIndex node : session.nodes()) {
      by_node_[node] = live_pods(view_, node);
      std::erase_if(by_node_[node],
                    [&](PodIndex each) { return !in_scope(scope, view_.pod(each)); });
      for (const PodIndex each : by_node_[node]) is_listed[each] = true;
    }
    // The pods of a namespace stand together.
    std::vector<PodIndex> pods;
    for (PodIndex i = 0; i < is_listed.size(); ++i) {
      if (!is_listed[i]) continue;
      if (!pods.empty() && view_.pod(pods.back()).pod_namespace != view_.pod(i).pod_namespace) {
        add_namespace(std::exchange(pods, {}));
      }
      pods.push_back(i);
    }
    if (!pods.empty()) add_namespace(std::move(pods));
    // In the order of the pods, because those of a workload share their terms.
    for (PodIndex i = 0; i < is_listed.size(); ++i) {
      const auto node = is_listed[i] ? view_.origin_of(i) : std::nullopt;
      violating_[i] = node && violates(i, *node);
    }
  }

  [[nodiscard]] const std::vector<PodIndex>& on_node(NodeIndex node) { return by_node_[node]; }
  void remove(PodIndex pod) { gone_[pod] = true; }
  // Of the start. Pods only leave, so another pod never violates a term later.
  [[nodiscard]] bool may_violate(PodIndex pod) const { return violating_[pod]; }

  // Whether a term of the pod matches another pod on the same node, or on one with an equal label.
  [[nodiscard]] bool violates(PodIndex index, NodeIndex node) {
    const ClusterPod& pod = view_.pod(index);
    if (!pod.placement) return false;
    return std::ranges::any_of(pod.placement->anti_affinity, [&](const PodAffinityTerm& term) {
      return term.selector && term_violated(pod, term, node);
    });
  }

 private:
  void add_namespace(std::vector<PodIndex> pods) {
    const std::string_view name = view_.pod(pods.front()).pod_namespace;
    namespaces_.emplace(name, LabelIndex(view_, std::move(pods)));
  }

  // The pods that a term selects in one namespace.
  struct Selected {
    std::string_view pod_namespace;
    const PodsByDomain* pods = nullptr;
  };
  struct Term {
    const NodeDomains* topology = nullptr;
    std::vector<Selected> selected;  // by namespace
  };

  bool term_violated(const ClusterPod& pod, const PodAffinityTerm& term, NodeIndex node) {
    Term& known = terms_[&term];
    if (known.topology == nullptr) known.topology = &topologies_.of(term.topology_key);
    const DomainId domain = known.topology->of(node);
    if (domain == kNoDomainId) return any_repelled(pod, term, by_node_[node]);
    // The pods of the node itself are in its domain.
    const auto violated_in = [&](std::string_view name) {
      const auto in_domain = std::ranges::equal_range(selected(name, term, known), domain, {},
                                                      [](const auto& each) { return each.first; });
      return std::ranges::any_of(in_domain, [&](const auto& each) {
        return !gone_[each.second] && view_.pod(each.second).name != pod.name;
      });
    };
    if (term.namespaces.empty()) return violated_in(pod.pod_namespace);
    return std::ranges::any_of(term.namespaces, violated_in);
  }

  bool any_repelled(const ClusterPod& pod, const PodAffinityTerm& term,
                    const std::vector<PodIndex>& others) const {
    return std::ranges::any_of(
        others, [&](PodIndex each) { return !gone_[each] && repels(pod, term, view_.pod(each)); });
  }

  // The pods of the namespace that the term selects, by domain.
  const PodsByDomain& selected(std::string_view name, const PodAffinityTerm& term, Term& known) {
    const auto found = std::ranges::find(known.selected, name, &Selected::pod_namespace);
    if (found != known.selected.end()) return *found->pods;
    known.selected.push_back({name, &select(name, term, *known.topology)});
    return *known.selected.back().pods;
  }

  // Computed once for all terms that select the same.
  const PodsByDomain& select(std::string_view name, const PodAffinityTerm& term,
                             const NodeDomains& topology) {
    TextKey key;
    key.add(name);
    key.add(term.topology_key);
    key.add(term.selector->requirements);
    const auto [known, is_new] = selected_.try_emplace(std::move(key).take());
    const auto pods = namespaces_.find(name);
    if (!is_new || pods == namespaces_.end()) return known->second;
    for (const PodIndex each : pods->second.matching(*term.selector)) {
      const auto node = view_.origin_of(each);
      const DomainId domain = node ? topology.of(*node) : kNoDomainId;
      if (domain != kNoDomainId) known->second.emplace_back(domain, each);
    }
    std::ranges::sort(known->second);
    return known->second;
  }

  const ClusterView& view_;
  NodeDomainIndex topologies_;
  std::vector<std::vector<PodIndex>> by_node_;
  std::unordered_map<std::string_view, LabelIndex> namespaces_;
  std::unordered_map<std::string, PodsByDomain> selected_;
  // The pods of a workload share their terms.
  std::unordered_map<const PodAffinityTerm*, Term> terms_;
  std::vector<bool> violating_;  // by pod
  std::vector<bool> gone_;       // by pod
};

// False: the total limit is reached.
bool process_node(PluginSession& session, DomainIndex& index, NodeIndex node) {
  std::vector<PodIndex> pods = index.on_node(node);
  if (!session.explains()) {
    std::erase_if(pods, [&](PodIndex each) { return !index.may_violate(each); });
  }
  sort_by_eviction(session.view(), pods);
  for (const PodIndex each : pods) session.consider(each);
  const SharedText reason(std::string("a required anti-affinity term matches another pod"));
  for (const PodIndex each : pods) {
    if (!index.may_violate(each) || !index.violates(each, node) ||
        !session.evictor().filter(each) || !session.evictor().pre_eviction_filter(each)) {
      continue;
    }
    switch (session.evict(each, reason)) {
      case EvictResult::evicted: index.remove(each); break;
      case EvictResult::total_limit: return false;
      case EvictResult::node_limit: return true;
      case EvictResult::namespace_limit:
      case EvictResult::refused: break;
    }
  }
  return true;
}

}  // namespace

void run_plugin(PluginSession& session, const InterPodAntiAffinityArgs& args) {
  DomainIndex index(session, args.scope);
  for (const NodeIndex node : session.nodes()) {
    if (!process_node(session, index, node)) return;
  }
}

}  // namespace forestall::rebalance
