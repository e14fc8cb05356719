// SPDX-License-Identifier: Apache-2.0
#include "rebalance/cluster_view.h"

#include <algorithm>

namespace forestall::rebalance {
namespace {

// Adds `change` to the count of each owner, once however often the pod names it.
void count_owners(const ClusterPod& pod, std::unordered_map<std::string_view, std::uint64_t>& owned,
                  int change) {
  const auto& owners = pod.owners;
  for (auto each = owners.begin(); each != owners.end(); ++each) {
    const bool counted = std::any_of(
        owners.begin(), each, [&](const PodOwner& earlier) { return earlier.uid == each->uid; });
    if (!counted) owned[each->uid] += static_cast<std::uint64_t>(change);
  }
}

}  // namespace

ClusterView::ClusterView(const Snapshot& snapshot)
    : snapshot_(snapshot),
      pods_(snapshot.nodes.size()),
      requests_(snapshot.nodes.size()),
      live_(snapshot.nodes.size()) {
  for (NodeIndex i = 0; i < snapshot.nodes.size(); ++i) {
    node_by_name_.emplace(snapshot.nodes[i].name, i);
  }
  for (PodIndex i = 0; i < snapshot.pods.size(); ++i) {
    const ClusterPod& each = snapshot.pods[i];
    count_owners(each, owned_, 1);
    const auto node = find_node(each.node);
    if (!node) continue;
    pods_[*node].push_back(i);
    if (!is_live(each)) continue;
    requests_[*node].add(each.request);
    ++live_[*node];
  }
  for (std::size_t i = 0; i < snapshot.budgets.size(); ++i) {
    budgets_[snapshot.budgets[i].pod_namespace].push_back(i);
  }
  for (std::size_t i = 0; i < snapshot.claims.size(); ++i) {
    claims_[snapshot.claims[i].pod_namespace].push_back(i);
  }
  for (std::size_t i = 0; i < snapshot.namespaces.size(); ++i) {
    namespaces_.insert_or_assign(snapshot.namespaces[i].name, i);
  }
}

std::optional<NodeIndex> ClusterView::find_node(std::string_view name) const {
  const auto found = node_by_name_.find(name);
  if (name.empty() || found == node_by_name_.end()) return std::nullopt;
  return found->second;
}

std::uint64_t ClusterView::pods_owned_by(std::string_view uid) const {
  const auto found = owned_.find(uid);
  return found == owned_.end() ? 0 : found->second;
}

std::span<const std::size_t> ClusterView::budgets_in(std::string_view pod_namespace) const {
  const auto found = budgets_.find(pod_namespace);
  if (found == budgets_.end()) return {};
  return found->second;
}

const VolumeClaim* ClusterView::find_claim(std::string_view pod_namespace,
                                           std::string_view name) const {
  const auto found = claims_.find(pod_namespace);
  if (found == claims_.end()) return nullptr;
  for (const std::size_t each : found->second) {
    if (snapshot_.claims[each].name == name) return &snapshot_.claims[each];
  }
  return nullptr;
}

const ClusterNamespace* ClusterView::find_namespace(std::string_view name) const {
  const auto found = namespaces_.find(name);
  return found == namespaces_.end() ? nullptr : &snapshot_.namespaces[found->second];
}

void ClusterView::remove(PodIndex index) {
  const ClusterPod& gone = pod(index);
  count_owners(gone, owned_, -1);
  const auto at = find_node(gone.node);
  if (!at) return;
  std::erase(pods_[*at], index);
  if (!is_live(gone)) return;
  for (const Amount& each : gone.request) requests_[*at].at(each.resource) -= each.nanos;
  --live_[*at];
}

}  // namespace forestall::rebalance
