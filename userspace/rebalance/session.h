// SPDX-License-Identifier: Apache-2.0
// One run of one plugin: its view of the cluster, the filters of its profile, and its evictions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/default_evictor.h"
#include "rebalance/eviction_counts.h"
#include "rebalance/move_memory.h"
#include "rebalance/plan.h"
#include "rebalance/policy.h"
#include "rebalance/room_finder.h"

namespace forestall::rebalance {

struct ExplainOptions {
  bool reasons = false;       // list the considered pods with their reasons
  std::size_t fits_left = 0;  // pairs of pods and nodes that may still be listed
};

class PluginSession {
 public:
  // All must outlive this object.
  PluginSession(ClusterView& view, const Policy& policy, const DefaultEvictor& evictor,
                std::span<const NodeIndex> nodes, EvictionCounts& counts, MoveMemory& memory,
                RoomFinder& room_finder, ExplainOptions& explain, const Requester& requester,
                PluginReport& run);

  [[nodiscard]] const ClusterView& view() const { return view_; }
  [[nodiscard]] const Policy& policy() const { return policy_; }
  [[nodiscard]] const DefaultEvictor& evictor() const { return evictor_; }
  // The nodes that are processed, in the order of their names.
  [[nodiscard]] std::span<const NodeIndex> nodes() const { return nodes_; }
  [[nodiscard]] PluginReport& run() { return run_; }
  // Whether an earlier plan moved the pod off the node, in the last 10 minutes.
  [[nodiscard]] bool was_moved(NodeIndex node, std::string_view pod_namespace,
                               std::string_view name) const {
    return memory_.was_moved(node, pod_namespace, name);
  }
  // Nodes that pods left by earlier plans, in the last 10 minutes, once for each pod.
  [[nodiscard]] std::vector<NodeIndex> left_lately() const { return memory_.left_lately(); }
  // Of earlier plans, and of this one up to now.
  [[nodiscard]] const std::vector<Booking>& bookings() { return memory_.bookings(); }

  // Whether the plan lists the pods that were considered.
  [[nodiscard]] bool explains() const { return explain_.reasons; }
  // Records the pod as considered, with all reasons, if the plan is to explain them.
  // `problem` is why it is not considered further; empty: it is.
  void consider(PodIndex pod, std::string problem = {});
  // If room-first is corrected, or the room required, a live pod with an owner is evicted only if
  // there is a node for it (null: among those that nodeFit considers), where its requests are
  // booked. If waiting-moves is corrected, no limit ends the plugin, so that all that waits is
  // found.
  [[nodiscard]] EvictResult evict(PodIndex pod, SharedText reason, const Rooms* rooms = nullptr);

  // Whether the pod could be moved now, together with those of earlier calls: why not; empty: yes.
  // Only the disruptions that budgets allow may be too few for all, because later plans continue.
  // The move stays in the view until end_trial(), and no eviction may be requested before.
  [[nodiscard]] std::string try_move(PodIndex pod, const Rooms& rooms,
                                     std::optional<NodeIndex>& destination);
  void end_trial();

  // Records that the plugin would have evicted the pod, and why it did not.
  void refuse(PodIndex pod, SharedText reason, std::string problem) {
    record(pod, std::move(reason), SharedText(std::move(problem)));
  }

  // Records a limit that stopped an eviction.
  void note_limit(const char* message);

  // Whether a pair of pod and node was left out of the lists.
  [[nodiscard]] bool fits_omitted() const { return fits_omitted_; }

 private:
  void limit(PodIndex pod, const char* message);
  void limit_total(PodIndex pod);
  [[nodiscard]] std::string tried_limit(const char* message);
  // What the plugin does next. `is_alternative`: it evicts only some of the node's pods.
  [[nodiscard]] EvictResult next_of(EvictResult result, bool is_alternative) const;
  void record(PodIndex pod, SharedText reason, SharedText refused,
              std::optional<NodeIndex> destination = std::nullopt);

  ClusterView& view_;
  const Policy& policy_;
  const DefaultEvictor& evictor_;
  std::span<const NodeIndex> nodes_;
  EvictionCounts& counts_;
  MoveMemory& memory_;
  RoomFinder& room_finder_;
  ExplainOptions& explain_;
  PluginReport& run_;
  const Requester requester_;
  const SharedText profile_;
  const SharedText plugin_;
  const SharedText no_room_;
  bool fits_omitted_ = false;
  std::optional<std::size_t> trial_;         // place changes at its start
  std::map<OwnerId, std::size_t> tried_by_;  // moves of the trial
};

// Whether `a` is evicted before `b`: without priority, lower priority, lower QoS class, without the
// prefer-no-eviction annotation; then by namespace and name.
[[nodiscard]] bool evicted_before(const ClusterView& view, PodIndex a, PodIndex b);

// The same for all of them. `surplus`, of each of the pods: of equal ones the largest goes first,
// then by namespace and name.
void sort_by_eviction(const ClusterView& view, std::vector<PodIndex>& pods,
                      std::span<const double> surplus = {});

// Whether the plugin considers this pod.
[[nodiscard]] bool in_scope(const PodScope& scope, const ClusterPod& pod);

// The live pods of the node.
[[nodiscard]] std::vector<PodIndex> live_pods(const ClusterView& view, NodeIndex node);

}  // namespace forestall::rebalance
