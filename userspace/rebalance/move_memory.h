// SPDX-License-Identifier: Apache-2.0
// Which pods were moved before: what ends loops and paces the moves of a workload. Input and output
// of a plan, because the plan itself remembers nothing.
//
// The replacement of a moved pod has another name and UID, and the scheduler decides where it runs.
// What connects both is the owner: of an owner whose pod was moved, each pod that was created since
// then may be the replacement.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

// A pod that was evicted so that its replacement runs elsewhere.
struct Move {
  std::string owner;  // UID of its first owner
  std::string node;   // that it left
  std::string pod_namespace;
  std::string pod;
  std::int64_t time_ns = 0;  // CLOCK_REALTIME
  // Where room was booked for its replacement; empty: nowhere.
  std::string destination = {};
  // That it requested, and, if measured, used.
  Nanos cpu = 0;
  Nanos memory = 0;
  Nanos working_set = 0;
  Nanos growth = 0;
  Nanos cpu_usage = 0;
  // UIDs of the owner's pods that were there before, although they were created in the second of
  // the move: times of creation are whole seconds.
  std::vector<std::string> existed = {};

  friend bool operator==(const Move&, const Move&) = default;
};

using MoveHistory = std::vector<Move>;

inline constexpr std::uint64_t kMemorySeconds = 3600;

// Room that an earlier plan booked stays booked for so long, unless the replacement is ready.
inline constexpr std::int64_t kBookingSeconds = 600;

// What is expected on a node, because a pod was moved there.
struct Booking {
  NodeIndex node = 0;
  // Requests; nothing: the replacement is bound, so they are counted with it.
  std::optional<Amounts> request;
  // That no measurement has yet: what the pod used, or, where that is unknown, requested.
  Nanos cpu_usage = 0;
  Nanos working_set = 0;
  Nanos growth = 0;
};

struct Pacing {
  // How long a move is remembered. 0: not at all.
  std::uint64_t memory_seconds = 0;
  // Moves of one workload within that time.
  std::optional<std::uint64_t> moves_per_workload;
  // Between two moves of one workload; at most memory_seconds.
  std::uint64_t seconds_between_moves = 0;

  friend bool operator==(const Pacing&, const Pacing&) = default;
};

class MoveMemory {
 public:
  // Moves that are older than the memory's time are forgotten. `view` must outlive this object.
  MoveMemory(const Pacing& pacing, const MoveHistory& history, const ClusterView& view);

  // Why the pod may not be moved now; empty: it may. Pods without an owner are not paced, because
  // nothing replaces them. `tried`: moves of its owner that this plan would have besides.
  [[nodiscard]] std::string refusal(PodIndex pod, std::size_t tried = 0) const;
  // The nodes that pods of this pod's owner left within the time, so that none goes back there.
  // Valid until a pod is added.
  [[nodiscard]] std::span<const NodeIndex> left_by(PodIndex pod) const;
  // The pod was evicted by this plan, with room for it on `destination`. `usage`: measured; null:
  // not.
  void add(PodIndex pod, std::optional<NodeIndex> destination, const Amounts* usage);
  // Whether an earlier plan moved the pod off the node, in the last kLeavingSeconds.
  [[nodiscard]] bool was_moved(NodeIndex node, std::string_view pod_namespace,
                               std::string_view name) const;
  // The nodes that the pods of earlier plans left in that time, once for each pod.
  [[nodiscard]] std::vector<NodeIndex> left_lately() const;
  // Of earlier plans, then of this one, whose requests the view has. Where a replacement is bound
  // but not ready, it is booked there.
  // The list grows with this plan, and only here.
  [[nodiscard]] const std::vector<Booking>& bookings();

  // All that is remembered, for the next plan.
  [[nodiscard]] MoveHistory take() &&;

 private:
  // By this plan. Its texts are copied when the plan has ended.
  struct PlannedMove {
    PodIndex pod = 0;
    std::optional<NodeIndex> destination;
    Nanos working_set = 0;
    Nanos growth = 0;
    Nanos cpu_usage = 0;
  };

  // The moves of one owner, counted from the first move of all.
  struct OwnerMoves {
    std::vector<std::size_t> moves;
    std::vector<NodeIndex> nodes;  // that they left, as far as they are in the snapshot
  };

  [[nodiscard]] std::string pace_refusal(std::int64_t ago) const;
  // Null: none.
  [[nodiscard]] const OwnerMoves* moves_of(PodIndex pod) const;
  void remember(OwnerId owner, std::optional<NodeIndex> node);
  void set_amounts(const PlannedMove& planned, Move& of) const;
  void add_existing_pods();
  [[nodiscard]] Move move_of(const PlannedMove& planned) const;
  void book();
  void book(const Move& move, std::vector<PodIndex>& created);
  [[nodiscard]] bool is_recent(const Move& move) const;
  static Booking booking_of(const Move& move, NodeIndex node);

  const Pacing pacing_;
  const ClusterView& view_;
  MoveHistory before_;  // of earlier plans
  std::vector<PlannedMove> planned_;
  std::vector<Booking> bookings_;
  std::size_t booked_ = 0;                       // of planned_
  std::vector<OwnerMoves> by_owner_;             // of both; as many owners as have some
  std::vector<std::optional<NodeIndex>> nodes_;  // that the moved pods left
};

}  // namespace forestall::rebalance
