// SPDX-License-Identifier: Apache-2.0
#include "rebalance/repelled_domains.h"

#include <algorithm>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/node_fit.h"

namespace forestall::rebalance {
namespace {

bool has_terms(const ClusterPod& pod) {
  return pod.placement && !pod.placement->anti_affinity.empty();
}

}  // namespace

void RepelledDomains::collect_from(const ClusterPod& pod, const ClusterPod& other,
                                   const Node& node) {
  const auto add = [&](const ClusterPod& owner, const ClusterPod& kept_away) {
    if (!owner.placement) return;
    for (const AntiAffinityTerm& term : owner.placement->anti_affinity) {
      const auto value = find_label(node.labels, term.topology_key);
      if (value && selects(owner, term, kept_away)) {
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
  const auto collect_one = [&](PodIndex each) {
    if (each == index || !is_live(view.pod(each))) return;
    const auto node = view.place_of(each);
    if (node) collect_from(pod, view.pod(each), view.node(*node));
  };
  if (has_terms(pod)) {
    for (PodIndex each = 0; each < view.snapshot().pods.size(); ++each) collect_one(each);
    return;
  }
  if (!with_terms_) {
    with_terms_.emplace();
    for (PodIndex each = 0; each < view.snapshot().pods.size(); ++each) {
      if (has_terms(view.pod(each))) with_terms_->push_back(each);
    }
  }
  for (const PodIndex each : *with_terms_) collect_one(each);
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
