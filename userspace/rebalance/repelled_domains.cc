// SPDX-License-Identifier: Apache-2.0
#include "rebalance/repelled_domains.h"

#include <algorithm>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {
namespace {

bool term_selects(const ClusterPod& pod, const AntiAffinityTerm& term, const ClusterPod& other) {
  if (!term.selector) return false;
  const bool in_namespace =
      term.namespaces.empty()
          ? other.pod_namespace == pod.pod_namespace
          : std::ranges::find(term.namespaces, other.pod_namespace) != term.namespaces.end();
  return in_namespace && matches(*term.selector, other.labels);
}

}  // namespace

void RepelledDomains::collect_from(const ClusterPod& pod, const ClusterPod& other,
                                   const Node& node) {
  const auto add = [&](const ClusterPod& owner, const ClusterPod& kept_away) {
    if (!owner.placement) return;
    for (const AntiAffinityTerm& term : owner.placement->anti_affinity) {
      const auto value = find_label(node.labels, term.topology_key);
      if (value && term_selects(owner, term, kept_away)) {
        domains_.insert({term.topology_key, *value});
      }
    }
  };
  add(pod, other);
  add(other, pod);
}

void RepelledDomains::collect(const ClusterView& view, std::size_t index) {
  domains_.clear();
  const ClusterPod& pod = view.pod(index);
  for (NodeIndex node = 0; node < view.snapshot().nodes.size(); ++node) {
    const auto collect_all = [&](const std::vector<PodIndex>& pods) {
      for (const PodIndex each : pods) {
        if (each == index || !is_live(view.pod(each))) continue;
        collect_from(pod, view.pod(each), view.node(node));
      }
    };
    collect_all(view.staying_on(node));
    collect_all(view.booked_on(node));
  }
}

bool RepelledDomains::repel(const ClusterView& view, std::size_t pod, const Node& node,
                            std::uint64_t version) {
  if (pod_ != pod || version_ != version) {
    collect(view, pod);
    pod_ = pod;
    version_ = version;
  }
  return std::ranges::any_of(domains_, [&](const auto& domain) {
    return find_label(node.labels, domain.first) == domain.second;
  });
}

}  // namespace forestall::rebalance
