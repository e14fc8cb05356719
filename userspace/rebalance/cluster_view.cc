// SPDX-License-Identifier: Apache-2.0
#include "rebalance/cluster_view.h"

#include <algorithm>

namespace forestall::rebalance {
namespace {

// A template, because a division by a constant takes less time.
template <std::int64_t kStep>
Nanos free_of(std::int64_t all, Nanos requested) {
  return Nanos{all - rounded(requested, kStep)} * kStep;
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
      corrections_(corrections),
      classes_(snapshot) {
  for (NodeIndex i = 0; i < snapshot.nodes.size(); ++i) {
    node_by_name_.emplace(snapshot.nodes[i].name, i);
    cordoned_.push_back(snapshot.nodes[i].unschedulable);
  }
  origins_.reserve(snapshot.pods.size());
  summaries_.reserve(snapshot.pods.size());
  constexpr std::size_t kPodsPerOwner = 8;
  owners_.reserve(snapshot.pods.size() / kPodsPerOwner);
  owner_of_.assign(snapshot.pods.size(), kNoOwner);
  for (PodIndex i = 0; i < snapshot.pods.size(); ++i) {
    const ClusterPod& each = snapshot.pods[i];
    const PodSummary& summary = summaries_.emplace_back(summary_of(each));
    count_owners(i, summary.is_replica ? 1 : 0);
    const auto node = find_node(each.node);
    origins_.push_back(node.value_or(kNowhere));
    if (!node) continue;
    pods_[*node].push_back(i);
    if (summary.live) count_requests(i, *node, 1);
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

PodSummary ClusterView::summary_of(const ClusterPod& pod) const {
  PodSummary out;
  for (const Amount& each : pod.request) {
    if (is_same_resource(each.resource, kCpu)) {
      out.cpu = each.nanos;
      out.requests_cpu = true;
    } else if (is_same_resource(each.resource, kMemory)) {
      out.memory = each.nanos;
      out.requests_memory = true;
    } else if (!is_same_resource(each.resource, kPods)) {
      out.requests_more = true;
    }
  }
  out.priority = pod.priority.value_or(0);
  out.has_priority = pod.priority.has_value();
  out.qos = pod.qos;
  out.live = is_live(pod);
  out.is_replica = !corrects(Correction::min_replicas) || (out.live && !pod.terminating);
  out.has_owner = !pod.owners.empty();
  out.of_daemon_set =
      std::ranges::find(pod.owners, "DaemonSet", &PodOwner::kind) != pod.owners.end();
  out.has_node_terms =
      pod.placement && (pod.placement->required_nodes || !pod.placement->preferred_nodes.empty());
  out.prefer_no_eviction = pod.prefer_no_eviction;
  out.evicted_in_background = pod.evicted_in_background;
  return out;
}

std::optional<NodeIndex> ClusterView::find_node(std::string_view name) const {
  const auto found = node_by_name_.find(name);
  if (name.empty() || found == node_by_name_.end()) return std::nullopt;
  return found->second;
}

ClusterView::OwnerKey ClusterView::owner_key(std::string_view uid,
                                             std::string_view pod_namespace) const {
  return {uid, corrects(Correction::min_replicas) ? pod_namespace : std::string_view()};
}

std::uint64_t ClusterView::pods_owned_by(std::string_view uid,
                                         std::string_view pod_namespace) const {
  const auto found = owners_.find(owner_key(uid, pod_namespace));
  return found == owners_.end() ? 0 : found->second.pods;
}

OwnerId ClusterView::find_owner(std::string_view uid, std::string_view pod_namespace) const {
  const auto found = owners_.find(owner_key(uid, pod_namespace));
  return found == owners_.end() ? kNoOwner : found->second.id;
}

std::span<const std::size_t> ClusterView::budgets_in(std::string_view pod_namespace) const {
  if (budgets_.empty()) return {};
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
  const PodSummary& gone = summaries_[index];
  if (removed_[index]) return;
  removed_[index] = true;
  if (gone.is_replica && !moved_[index]) count_owners(index, -1);
  const NodeIndex at = origins_[index];
  if (at == kNowhere) return;
  std::erase(pods_[at], index);
  if (moved_[index]) return;
  places_[index] = kNowhere;
  place_changes_.push_back({index, at, std::nullopt});
  if (gone.live) count_requests(index, at, -1);
}

void ClusterView::move(PodIndex index, NodeIndex destination) {
  const NodeIndex from = origins_[index];
  if (from == kNowhere || !summaries_[index].live || removed_[index] || moved_[index]) return;
  moved_[index] = true;
  places_[index] = destination;
  place_changes_.push_back({index, from, destination});
  // Its replacement does not run yet.
  if (summaries_[index].is_replica) count_owners(index, -1);
  count_requests(index, from, -1);
  count_requests(index, destination, 1);
}

void ClusterView::take_back(std::size_t changes) {
  for (std::size_t i = place_changes_.size(); i-- > changes;) {
    place_changes_[i].tried = true;
    const PlaceChange tried = place_changes_[i];
    moved_[tried.pod] = false;
    places_[tried.pod] = tried.from;
    if (summaries_[tried.pod].is_replica) count_owners(tried.pod, 1);
    count_requests(tried.pod, *tried.to, -1);
    count_requests(tried.pod, tried.from, 1);
    place_changes_.push_back({tried.pod, *tried.to, tried.from, true});
  }
}

void ClusterView::book(NodeIndex node, const Amounts& request) {
  add_request(node, request, 1);
  ++live_[node];
  rooms_[node].known = false;
}

void ClusterView::add_request(NodeIndex node, const Amounts& request, int sign) {
  NodeRequests& to = requests_[node];
  for (const Amount& each : request) {
    if (is_same_resource(each.resource, kCpu)) {
      to.cpu += sign * each.nanos;
    } else if (is_same_resource(each.resource, kMemory)) {
      to.memory += sign * each.nanos;
    } else {
      to.others.at(each.resource) += sign * each.nanos;
    }
  }
}

void ClusterView::count_requests(PodIndex index, NodeIndex node, int sign) {
  const PodSummary& summary = summaries_[index];
  if (summary.requests_more) {
    add_request(node, pod(index).request, sign);
  } else {
    requests_[node].cpu += sign * summary.cpu;
    requests_[node].memory += sign * summary.memory;
  }
  live_[node] += sign;
  rooms_[node].known = false;
}

Nanos ClusterView::requested_on(NodeIndex node, std::string_view resource) const {
  if (is_same_resource(resource, kCpu)) return requests_[node].cpu;
  if (is_same_resource(resource, kMemory)) return requests_[node].memory;
  return requests_[node].others.of(resource);
}

// The pods of an owner mostly stand together.
ClusterView::Owner& ClusterView::owner_named(const OwnerKey& key) {
  const auto is_same = [](std::string_view a, std::string_view b) {
    return a.data() == b.data() && a.size() == b.size();
  };
  const bool is_last = last_owner_ != nullptr && is_same(last_owner_->first.uid, key.uid) &&
                       is_same(last_owner_->first.pod_namespace, key.pod_namespace);
  if (!is_last) last_owner_ = &*owners_.try_emplace(key).first;
  return last_owner_->second;
}

// Adds `change` to the count of each owner, once however often the pod names it.
void ClusterView::count_owners(PodIndex index, int change) {
  if (!summaries_[index].has_owner) return;
  const auto& owners = pod(index).owners;
  if (owners.size() == 1 && owner_of_[index] != kNoOwner) {
    owner_by_id_[owner_of_[index]]->pods += static_cast<std::uint64_t>(change);
    return;
  }
  for (auto each = owners.begin(); each != owners.end(); ++each) {
    const bool counted = std::any_of(
        owners.begin(), each, [&](const PodOwner& earlier) { return earlier.uid == each->uid; });
    if (counted) continue;
    Owner& owner = owner_named(owner_key(each->uid, pod(index).pod_namespace));
    owner.pods += static_cast<std::uint64_t>(change);
    if (each != owners.begin()) continue;
    if (owner.id == kNoOwner) {
      owner.id = owner_count_++;
      owner_by_id_.push_back(&owner);
    }
    owner_of_[index] = owner.id;
  }
}

Nanos ClusterView::room_on(NodeIndex node, std::string_view resource) const {
  if (resource == kCpu) return room_on(node).cpu;
  if (resource == kMemory) return room_on(node).memory;
  if (resource == kPods) return room_on(node).pods;
  const Amount* const all = this->node(node).allocatable.find(resource);
  if (all == nullptr) return 0;
  return nanos_of(resource,
                  counted(resource, all->nanos) - counted(resource, requested_on(node, resource)));
}

void ClusterView::measure_node(NodeIndex node) const {
  const Amounts& all = this->node(node).allocatable;
  ComputedRoom& of = rooms_[node];
  of.measured = true;
  of.room.all_cpu = all.of(kCpu);
  of.room.all_memory = all.of(kMemory);
  of.room.whole_cpu = static_cast<double>(of.room.all_cpu);
  of.room.whole_memory = static_cast<double>(of.room.all_memory);
  of.room.whole_pods = static_cast<double>(all.of(kPods));
  of.cpu_steps = rounded(of.room.all_cpu, kNanosPerMilli);
  of.memory_steps = rounded(of.room.all_memory, kNanosPerUnit);
  of.pods = rounded(all.of(kPods), kNanosPerUnit);
}

void ClusterView::compute_room(NodeIndex node) const {
  ComputedRoom& of = rooms_[node];
  if (!of.measured) measure_node(node);
  NodeRoom& room = of.room;
  room.requested_cpu = requests_[node].cpu;
  room.requested_memory = requests_[node].memory;
  room.cpu = free_of<kNanosPerMilli>(of.cpu_steps, room.requested_cpu);
  room.memory = free_of<kNanosPerUnit>(of.memory_steps, room.requested_memory);
  room.pods = Nanos{of.pods - live_[node]} * kNanosPerUnit;
  of.known = true;
}

}  // namespace forestall::rebalance
