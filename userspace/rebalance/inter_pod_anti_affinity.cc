// SPDX-License-Identifier: Apache-2.0
// RemovePodsViolatingInterPodAntiAffinity.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rebalance/node_fit.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

using PodsByNamespace = std::unordered_map<std::string_view, std::vector<PodIndex>>;

// The live pods of the session in the scope of the plugin, by node and by topology domain. Evicted
// pods are taken out.
class DomainIndex {
 public:
  DomainIndex(PluginSession& session, const PodScope& scope) : session_(session) {
    for (const NodeIndex node : session.nodes()) {
      std::vector<PodIndex>& pods = by_node_[node];
      for (const PodIndex each : live_pods(session.view(), node)) {
        if (in_scope(scope, session.view().pod(each))) pods.push_back(each);
      }
    }
  }

  [[nodiscard]] const std::vector<PodIndex>& on_node(NodeIndex node) { return by_node_[node]; }
  void remove(PodIndex pod) { gone_.insert(pod); }

  // Whether a term of the pod matches another pod on the same node, or on one with an equal label.
  [[nodiscard]] bool violates(PodIndex index, NodeIndex node) {
    const ClusterPod& pod = session_.view().pod(index);
    if (!pod.placement) return false;
    return std::any_of(pod.placement->anti_affinity.begin(), pod.placement->anti_affinity.end(),
                       [&](const AntiAffinityTerm& term) {
                         return term.selector && term_violated(pod, term, node);
                       });
  }

 private:
  bool term_violated(const ClusterPod& pod, const AntiAffinityTerm& term, NodeIndex node) {
    if (any_repelled(pod, term, by_node_[node])) return true;
    const auto value = find_label(session_.view().node(node).labels, term.topology_key);
    if (!value) return false;
    const PodsByNamespace& domain = domains_of(term.topology_key)[*value];
    if (term.namespaces.empty()) return any_repelled(pod, term, in(domain, pod.pod_namespace));
    return std::any_of(term.namespaces.begin(), term.namespaces.end(), [&](std::string_view each) {
      return any_repelled(pod, term, in(domain, each));
    });
  }

  bool any_repelled(const ClusterPod& pod, const AntiAffinityTerm& term,
                    std::span<const PodIndex> others) const {
    return std::any_of(others.begin(), others.end(), [&](PodIndex each) {
      return repels(pod, term, session_.view().pod(each)) && !gone_.contains(each);
    });
  }

  static std::span<const PodIndex> in(const PodsByNamespace& domain, std::string_view name) {
    const auto found = domain.find(name);
    if (found == domain.end()) return {};
    return found->second;
  }

  std::unordered_map<std::string_view, PodsByNamespace>& domains_of(std::string_view key) {
    const auto [known, is_new] = domains_.try_emplace(key);
    if (!is_new) return known->second;
    for (const auto& [node, pods] : by_node_) {
      const auto value = find_label(session_.view().node(node).labels, key);
      if (!value) continue;
      PodsByNamespace& domain = known->second[*value];
      for (const PodIndex each : pods) {
        domain[session_.view().pod(each).pod_namespace].push_back(each);
      }
    }
    return known->second;
  }

  PluginSession& session_;
  std::map<NodeIndex, std::vector<PodIndex>> by_node_;
  std::map<std::string_view, std::unordered_map<std::string_view, PodsByNamespace>> domains_;
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
