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

ClusterView::ClusterView(const Snapshot& snapshot, Corrections corrections)
    : snapshot_(snapshot),
      pods_(snapshot.nodes.size()),
      moved_(snapshot.pods.size()),
      removed_(snapshot.pods.size()),
      requests_(snapshot.nodes.size()),
      live_(snapshot.nodes.size()),
      rooms_(snapshot.nodes.size()),
      corrections_(corrections) {
  for (NodeIndex i = 0; i < snapshot.nodes.size(); ++i) {
    node_by_name_.emplace(snapshot.nodes[i].name, i);
  }
  for (PodIndex i = 0; i < snapshot.pods.size(); ++i) {
    const ClusterPod& each = snapshot.pods[i];
    if (counts_as_replica(each)) count_owners(each, owned_, 1);
    const auto node = find_node(each.node);
    origins_.push_back(node.value_or(kNowhere));
    if (!node) continue;
    pods_[*node].push_back(i);
    if (is_live(each)) count_requests(i, *node, 1);
  }
  places_ = origins_;
  for (std::size_t i = 0; i < snapshot.budgets.size(); ++i) {
    budgets_[snapshot.budgets[i].pod_namespace].push_back(i);
  }
  for (std::size_t i = 0; i < snapshot.claims.size(); ++i) {
    claims_[snapshot.claims[i].pod_namespace].try_emplace(snapshot.claims[i].name, i);
  }
  for (std::size_t i = 0; i < snapshot.volumes.size(); ++i) {
    volumes_.try_emplace(snapshot.volumes[i].name, i);
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
  const auto claim = found->second.find(name);
  return claim == found->second.end() ? nullptr : &snapshot_.claims[claim->second];
}

const PersistentVolume* ClusterView::find_volume(std::string_view name) const {
  const auto found = volumes_.find(name);
  return found == volumes_.end() ? nullptr : &snapshot_.volumes[found->second];
}

const ClusterNamespace* ClusterView::find_namespace(std::string_view name) const {
  const auto found = namespaces_.find(name);
  return found == namespaces_.end() ? nullptr : &snapshot_.namespaces[found->second];
}

void ClusterView::remove(PodIndex index) {
  const ClusterPod& gone = pod(index);
  if (removed_[index]) return;
  removed_[index] = true;
  if (counts_as_replica(gone) && !moved_[index]) count_owners(gone, owned_, -1);
  const NodeIndex at = origins_[index];
  if (at == kNowhere) return;
  std::erase(pods_[at], index);
  if (moved_[index]) return;
  places_[index] = kNowhere;
  place_changes_.push_back({index, at, std::nullopt});
  if (is_live(gone)) count_requests(index, at, -1);
}

void ClusterView::move(PodIndex index, NodeIndex destination) {
  const NodeIndex from = origins_[index];
  if (from == kNowhere || !is_live(pod(index)) || removed_[index] || moved_[index]) return;
  moved_[index] = true;
  places_[index] = destination;
  place_changes_.push_back({index, from, destination});
  // Its replacement does not run yet.
  if (counts_as_replica(pod(index))) count_owners(pod(index), owned_, -1);
  count_requests(index, from, -1);
  count_requests(index, destination, 1);
}

void ClusterView::book(NodeIndex node, const Amounts& request) {
  for (const Amount& each : request) requests_[node].at(each.resource) += each.nanos;
  ++live_[node];
  rooms_[node] = {};
}

bool ClusterView::counts_as_replica(const ClusterPod& pod) const {
  return !corrects(Correction::min_replicas) || (is_live(pod) && !pod.terminating);
}

void ClusterView::count_requests(PodIndex index, NodeIndex node, int sign) {
  for (const Amount& each : pod(index).request) {
    requests_[node].at(each.resource) += sign * each.nanos;
  }
  live_[node] += sign;
  rooms_[node] = {};
}

Nanos ClusterView::compute_room(NodeIndex node, std::string_view resource) const {
  const Amount* const allocatable = this->node(node).allocatable.find(resource);
  const Nanos all = allocatable == nullptr ? 0 : allocatable->nanos;
  Nanos room = 0;
  if (resource == kPods) {
    room = nanos_of(kPods, counted(kPods, all) - live_[node]);
  } else if (allocatable != nullptr || resource == kCpu || resource == kMemory) {
    room = nanos_of(resource,
                    counted(resource, all) - counted(resource, requests_[node].of(resource)));
  }
  rooms_[node].at(resource) = room;
  return room;
}

}  // namespace forestall::rebalance
