// SPDX-License-Identifier: Apache-2.0
// The snapshot as the plugins see it during a plan: indexed, and without the pods that earlier
// plugins evicted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/corrections.h"
#include "rebalance/placement_rules.h"
#include "rebalance/pod_class_index.h"
#include "rebalance/snapshot.h"

namespace forestall::rebalance {

using NodeIndex = std::size_t;
using PodIndex = std::size_t;

// The first owners of pods, as numbers from 0.
using OwnerId = std::uint32_t;
inline constexpr OwnerId kNoOwner = std::numeric_limits<OwnerId>::max();

struct NodeRoom {
  // That the node has and live pods do not request, in whole steps of counted().
  Nanos cpu = 0;
  Nanos memory = 0;
  Nanos pods = 0;  // how many more
  // Exact: what there is, and what is requested.
  Nanos all_cpu = 0;
  Nanos all_memory = 0;
  Nanos requested_cpu = 0;
  Nanos requested_memory = 0;
  // What there is, as numbers to divide by.
  double whole_cpu = 0;
  double whole_memory = 0;
  double whole_pods = 0;
};

// What the plugins read of every pod, side by side: the pods themselves are far apart in memory.
struct PodSummary {
  // That it requests.
  Nanos cpu = 0;
  Nanos memory = 0;
  std::int32_t priority = 0;
  bool has_priority = false;
  QosClass qos = QosClass::best_effort;
  bool requests_cpu = false;  // if only 0
  bool requests_memory = false;
  bool requests_more = false;  // than these two and its place
  bool live = false;
  bool is_replica = false;  // counts in pods_owned_by()
  bool has_owner = false;
  bool of_daemon_set = false;
  bool has_node_terms = false;  // required or preferred node affinity
  bool prefer_no_eviction = false;
  bool evicted_in_background = false;
};

// A pod without an owner does not come back, and one that has ended takes no room.
[[nodiscard]] inline bool comes_back(const PodSummary& pod) {
  return pod.live && pod.has_owner;
}

// A pod that left its node, for another or (nothing) for good.
struct PlaceChange {
  PodIndex pod = 0;
  NodeIndex from = 0;
  std::optional<NodeIndex> to;
  bool tried = false;  // it was taken back, or it takes one back
};

class ClusterView {
 public:
  // REQUIRES: the snapshot is sorted, and outlives this object.
  explicit ClusterView(const Snapshot& snapshot, Corrections corrections = {});

  [[nodiscard]] bool corrects(Correction each) const { return corrections_.has(each); }
  [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] const Node& node(NodeIndex index) const { return snapshot_.nodes[index]; }
  [[nodiscard]] const ClusterPod& pod(PodIndex index) const { return snapshot_.pods[index]; }
  [[nodiscard]] std::int64_t now_ns() const { return snapshot_.taken_ns; }

  [[nodiscard]] bool is_cordoned(NodeIndex index) const { return cordoned_[index]; }
  [[nodiscard]] std::optional<NodeIndex> find_node(std::string_view name) const;
  [[nodiscard]] const PodSummary& summary(PodIndex index) const { return summaries_[index]; }
  // The pods that are bound to the node, in the order of the snapshot.
  [[nodiscard]] const std::vector<PodIndex>& pods_on(NodeIndex node) const { return pods_[node]; }
  // That all live pods of the node request.
  [[nodiscard]] Nanos requested_on(NodeIndex node, std::string_view resource) const;
  [[nodiscard]] std::int64_t live_pods_on(NodeIndex node) const { return live_[node]; }
  // What the node has and live pods do not request, in whole steps of counted(); of pods, how many
  // more. 0 of a resource that the node does not have, however much of it is requested there.
  [[nodiscard]] Nanos room_on(NodeIndex node, std::string_view resource) const;
  // room_on() of the resources that every node has.
  [[nodiscard]] const NodeRoom& room_on(NodeIndex node) const {
    if (!rooms_[node].known) compute_room(node);
    return rooms_[node].room;
  }
  // Pods of any phase and namespace that have an owner of this UID. If minReplicas is corrected,
  // only those of the namespace that run or start and do not terminate.
  [[nodiscard]] std::uint64_t pods_owned_by(std::string_view uid,
                                            std::string_view pod_namespace) const;
  // The first owner of the pod; kNoOwner: it has none.
  [[nodiscard]] OwnerId owner_of(PodIndex pod) const { return owner_of_[pod]; }
  // kNoOwner: it is the first one of no pod.
  [[nodiscard]] OwnerId find_owner(std::string_view uid, std::string_view pod_namespace) const;
  // All are below.
  [[nodiscard]] OwnerId owner_count() const { return owner_count_; }
  [[nodiscard]] PodClassId class_of(PodIndex pod) const { return classes_.of(pod); }
  // Indexes of the budgets of a namespace.
  [[nodiscard]] std::span<const std::size_t> budgets_in(std::string_view pod_namespace) const;
  [[nodiscard]] const VolumeClaim* find_claim(std::string_view pod_namespace,
                                              std::string_view name) const;
  [[nodiscard]] const PersistentVolume* find_volume(std::string_view name) const;
  [[nodiscard]] const ClusterNamespace* find_namespace(std::string_view name) const;

  // Required pod affinity and anti-affinity, topology spread and host ports. Valid until the rules
  // of another pod are read, or a pod leaves its node.
  [[nodiscard]] const PodRules& rules_of(PodIndex pod) const { return placement_.of(*this, pod); }

  // Removes the pod: it was evicted, and its plugin has ended.
  void remove(PodIndex pod);

  // Counts the requests of an evicted pod at its destination instead of its node. The node's list
  // keeps it until remove().
  void move(PodIndex pod, NodeIndex destination);
  // Moves the pods back that were moved since place_changes() had this size. REQUIRES: none of them
  // was removed, nor any other pod since then.
  void take_back(std::size_t changes);
  // Counts requests of a pod that is expected on the node. Before the first move().
  void book(NodeIndex node, const Amounts& request);
  // Where the pod is at this point of the plan: its node, or its destination; nothing: it is gone.
  [[nodiscard]] std::optional<NodeIndex> place_of(PodIndex pod) const {
    if (places_[pod] == kNowhere) return std::nullopt;
    return places_[pod];
  }
  // Its node in the snapshot; nothing: it is not bound to one.
  [[nodiscard]] std::optional<NodeIndex> origin_of(PodIndex pod) const {
    if (origins_[pod] == kNowhere) return std::nullopt;
    return origins_[pod];
  }
  // All since the start of the plan, so that whatever counts pods by place may follow.
  [[nodiscard]] const std::vector<PlaceChange>& place_changes() const { return place_changes_; }

 private:
  static constexpr NodeIndex kNowhere = std::numeric_limits<NodeIndex>::max();

  struct NodeRequests {
    Nanos cpu = 0;
    Nanos memory = 0;
    Amounts others;
  };
  struct Owner {
    std::uint64_t pods = 0;
    OwnerId id = kNoOwner;
  };

  // A tenant may name the UID of any owner in its own namespace, so the pods of each namespace
  // count alone. Of an owner without a namespace, whose pods are in several, minReplicas then
  // counts too few, which protects more. Without a namespace if minReplicas is not corrected: the
  // descheduler counts them all.
  struct OwnerKey {
    std::string_view uid;
    std::string_view pod_namespace;

    friend bool operator==(const OwnerKey&, const OwnerKey&) = default;
  };
  struct OwnerKeyHash {
    std::size_t operator()(const OwnerKey& key) const noexcept {
      return std::hash<std::string_view>()(key.uid);
    }
  };

  [[nodiscard]] OwnerKey owner_key(std::string_view uid, std::string_view pod_namespace) const;
  [[nodiscard]] PodSummary summary_of(const ClusterPod& pod) const;
  void add_request(NodeIndex node, const Amounts& request, int sign);
  Owner& owner_named(const OwnerKey& key);
  void count_owners(PodIndex pod, int change);
  void measure_node(NodeIndex node) const;
  void compute_room(NodeIndex node) const;
  void count_requests(PodIndex pod, NodeIndex node, int sign);

  const Snapshot& snapshot_;
  std::unordered_map<std::string_view, NodeIndex> node_by_name_;
  std::vector<bool> cordoned_;         // by node
  std::vector<PodSummary> summaries_;  // by pod
  std::vector<std::vector<PodIndex>> pods_;
  std::vector<NodeIndex> origins_;  // by pod: its node in the snapshot
  std::vector<NodeIndex> places_;   // by pod: its node now
  std::vector<bool> moved_;         // by pod
  std::vector<bool> removed_;       // by pod
  std::vector<NodeRequests> requests_;
  std::vector<std::int64_t> live_;
  // Computed when it is read.
  struct ComputedRoom {
    bool known = false;  // else the node has changed
    NodeRoom room;
    // What the node has, in steps of counted(). It stays.
    bool measured = false;
    std::int64_t cpu_steps = 0;
    std::int64_t memory_steps = 0;
    std::int64_t pods = 0;
  };
  mutable std::vector<ComputedRoom> rooms_;
  std::unordered_map<OwnerKey, Owner, OwnerKeyHash> owners_;
  std::pair<const OwnerKey, Owner>* last_owner_ = nullptr;  // that was counted
  std::vector<OwnerId> owner_of_;                           // by pod
  OwnerId owner_count_ = 0;
  std::vector<Owner*> owner_by_id_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> budgets_;
  std::unordered_map<std::string_view, std::unordered_map<std::string_view, std::size_t>>
      claims_;  // by namespace and name
  std::unordered_map<std::string_view, std::size_t> volumes_;
  std::unordered_map<std::string_view, std::size_t> namespaces_;
  Corrections corrections_;
  std::vector<PlaceChange> place_changes_;
  mutable PodClassIndex classes_;
  mutable PlacementRules placement_;  // follows the changes when it is read
};

}  // namespace forestall::rebalance
