// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingInterPodAntiAffinity.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rebalance/label_index.h"
#include "rebalance/node_fit.h"
#include "rebalance/plugins.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

using PodsByValue = std::unordered_map<std::string_view, std::vector<PodIndex>>;

// The live pods of the session in the scope of the plugin, by node, and by namespace, selector and
// topology domain. Evicted pods are taken out.
class DomainIndex {
 public:
  DomainIndex(PluginSession& session, const PodScope& scope) : session_(session) {
    std::map<std::string_view, std::vector<PodIndex>> by_namespace;
    for (const NodeIndex node : session.nodes()) {
      std::vector<PodIndex>& pods = by_node_[node];
      for (const PodIndex each : live_pods(session.view(), node)) {
        const ClusterPod& pod = session.view().pod(each);
        if (!in_scope(scope, pod)) continue;
        pods.push_back(each);
        by_namespace[pod.pod_namespace].push_back(each);
      }
    }
    for (auto& [name, pods] : by_namespace) {
      std::sort(pods.begin(), pods.end());
      namespaces_.emplace(name, LabelIndex(session.view(), std::move(pods)));
    }
  }

  [[nodiscard]] const std::vector<PodIndex>& on_node(NodeIndex node) { return by_node_[node]; }
  void remove(PodIndex pod) { gone_.insert(pod); }

  // Whether a term of the pod matches another pod on the same node, or on one with an equal label.
  [[nodiscard]] bool violates(PodIndex index, NodeIndex node) {
    const ClusterPod& pod = session_.view().pod(index);
    if (!pod.placement) return false;
    return std::any_of(pod.placement->anti_affinity.begin(), pod.placement->anti_affinity.end(),
                       [&](const PodAffinityTerm& term) {
                         return term.selector && term_violated(pod, term, node);
                       });
  }

 private:
  bool term_violated(const ClusterPod& pod, const PodAffinityTerm& term, NodeIndex node) {
    const auto value = find_label(session_.view().node(node).labels, term.topology_key);
    if (!value) return any_repelled(pod, term, by_node_[node]);
    // The pods of the node itself are in its domain.
    const auto violated_in = [&](std::string_view name) {
      const PodsByValue& domains = selected(name, term);
      const auto domain = domains.find(*value);
      return domain != domains.end() &&
             std::any_of(domain->second.begin(), domain->second.end(), [&](PodIndex each) {
               return session_.view().pod(each).name != pod.name && !gone_.contains(each);
             });
    };
    if (term.namespaces.empty()) return violated_in(pod.pod_namespace);
    return std::any_of(term.namespaces.begin(), term.namespaces.end(), violated_in);
  }

  bool any_repelled(const ClusterPod& pod, const PodAffinityTerm& term,
                    const std::vector<PodIndex>& others) const {
    return std::any_of(others.begin(), others.end(), [&](PodIndex each) {
      return repels(pod, term, session_.view().pod(each)) && !gone_.contains(each);
    });
  }

  // The pods of the namespace that the term selects, by the value of its topology key. Computed
  // once for all terms that select the same.
  const PodsByValue& selected(std::string_view name, const PodAffinityTerm& term) {
    const PodsByValue*& known = by_term_[{name, &term}];
    if (known == nullptr) known = &select(name, term);
    return *known;
  }

  const PodsByValue& select(std::string_view name, const PodAffinityTerm& term) {
    TextKey key;
    key.add(name);
    key.add(term.topology_key);
    key.add(term.selector->requirements);
    const auto [known, is_new] = selected_.try_emplace(std::move(key).take());
    const auto pods = namespaces_.find(name);
    if (!is_new || pods == namespaces_.end()) return known->second;
    for (const PodIndex each : pods->second.matching(*term.selector)) {
      const auto node = session_.view().find_node(session_.view().pod(each).node);
      if (!node) continue;
      const auto value = find_label(session_.view().node(*node).labels, term.topology_key);
      if (value) known->second[*value].push_back(each);
    }
    return known->second;
  }

  PluginSession& session_;
  std::map<NodeIndex, std::vector<PodIndex>> by_node_;
  std::unordered_map<std::string_view, LabelIndex> namespaces_;
  std::unordered_map<std::string, PodsByValue> selected_;
  // The pods of a workload share their terms.
  std::map<std::pair<std::string_view, const PodAffinityTerm*>, const PodsByValue*> by_term_;
  std::unordered_set<PodIndex> gone_;
};

// False: the total limit is reached.
bool process_node(PluginSession& session, DomainIndex& index, NodeIndex node) {
  std::vector<PodIndex> pods = index.on_node(node);
  std::sort(pods.begin(), pods.end(),
            [&](PodIndex a, PodIndex b) { return evicted_before(session.view(), a, b); });
  for (const PodIndex each : pods) session.consider(each);
  for (const PodIndex each : pods) {
    if (!index.violates(each, node) || !session.evictor().filter(each) ||
        !session.evictor().pre_eviction_filter(each)) {
      continue;
    }
    switch (session.evict(each, "a required anti-affinity term matches another pod")) {
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
