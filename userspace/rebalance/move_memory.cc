// SPDX-License-Identifier: Apache-2.0
#include "rebalance/move_memory.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace forestall::rebalance {
namespace {

std::int64_t elapsed_seconds(std::int64_t now_ns, std::int64_t time_ns) {
  return std::max<std::int64_t>(now_ns - time_ns, 0) / kNanosPerUnit;
}

// Whether the pod came after the move. Times of creation are whole seconds.
bool came_after(const ClusterPod& pod, const Move& move) {
  return Nanos{pod.created_ns} + kNanosPerUnit > move.time_ns &&
         std::ranges::find(move.existed, pod.uid) == move.existed.end();
}

}  // namespace

MoveMemory::MoveMemory(const Pacing& pacing, const MoveHistory& history, const ClusterView& view)
    : pacing_(pacing), view_(view) {
  const auto kept = static_cast<Nanos>(pacing.memory_seconds) * kNanosPerUnit;
  for (const Move& each : history) {
    const Nanos age = Nanos{view.now_ns()} - each.time_ns;
    // A clock that was set back must not keep a move in the memory without end.
    if (age >= kept || age <= -kept) continue;
    remember(view.find_owner(each.owner, each.pod_namespace), view.find_node(each.node));
    before_.push_back(each);
  }
  book();
}

// Each pod of the owner that was created since a move is the replacement of one move, the first one
// of the first.
void MoveMemory::book() {
  std::vector<std::size_t> booked;
  std::unordered_map<std::string_view, std::vector<PodIndex>> created;  // by owner
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const Nanos age = Nanos{view_.now_ns()} - before_[i].time_ns;
    const Nanos longest = Nanos{kBookingSeconds} * kNanosPerUnit;
    if (before_[i].destination.empty() || age >= longest || age <= -longest) continue;
    booked.push_back(i);
    created.try_emplace(before_[i].owner);
  }
  if (booked.empty()) return;
  for (PodIndex i = 0; i < view_.snapshot().pods.size(); ++i) {
    const ClusterPod& pod = view_.pod(i);
    if (pod.owners.empty() || !is_live(pod) || pod.terminating) continue;
    const auto found = created.find(pod.owners.front().uid);
    if (found != created.end()) found->second.push_back(i);
  }
  for (auto& [owner, pods] : created) {
    std::ranges::stable_sort(pods, {}, [&](PodIndex each) { return view_.pod(each).created_ns; });
  }
  std::ranges::stable_sort(booked, {}, [&](std::size_t each) { return before_[each].time_ns; });
  for (const std::size_t each : booked) book(before_[each], created.at(before_[each].owner));
}

void MoveMemory::book(const Move& move, std::vector<PodIndex>& created) {
  // A tenant may name any owner, in its namespace.
  const auto replacement = std::ranges::find_if(created, [&](PodIndex each) {
    return view_.pod(each).pod_namespace == move.pod_namespace && came_after(view_.pod(each), move);
  });
  std::optional<NodeIndex> place;
  if (replacement != created.end()) {
    const ClusterPod& pod = view_.pod(*replacement);
    const bool ready = std::ranges::any_of(pod.conditions, [](const PodCondition& condition) {
      return condition.type == "Ready" && condition.status == "True";
    });
    place = view_.find_node(pod.node);
    created.erase(replacement);
    if (ready) return;
  }
  const auto node = place ? place : view_.find_node(move.destination);
  if (!node) return;
  Booking booking = booking_of(move, *node);
  if (!place) {
    booking.request.emplace();
    booking.request->at(kCpu) = move.cpu;
    booking.request->at(kMemory) = move.memory;
  }
  bookings_.push_back(std::move(booking));
}

Booking MoveMemory::booking_of(const Move& move, NodeIndex node) {
  return {.node = node,
          .request = std::nullopt,
          .cpu_usage = move.cpu_usage > 0 ? move.cpu_usage : move.cpu,
          .working_set = move.working_set > 0 ? move.working_set : move.memory,
          .growth = move.growth};
}

// Of an owner that owns no pod any more, the moves are only kept for later plans.
void MoveMemory::remember(OwnerId owner, std::optional<NodeIndex> node) {
  if (owner != kNoOwner) {
    if (owner >= by_owner_.size()) by_owner_.resize(view_.owner_count());
    by_owner_[owner].moves.push_back(nodes_.size());
    if (node) by_owner_[owner].nodes.push_back(*node);
  }
  nodes_.push_back(node);
}

const MoveMemory::OwnerMoves* MoveMemory::moves_of(PodIndex pod) const {
  const OwnerId owner = view_.owner_of(pod);
  if (owner >= by_owner_.size() || by_owner_[owner].moves.empty()) return nullptr;
  return &by_owner_[owner];
}

std::string MoveMemory::refusal(PodIndex index, std::size_t tried) const {
  const OwnerMoves* const of_owner = moves_of(index);
  if (pacing_.memory_seconds == 0) tried = 0;
  if (of_owner == nullptr && tried == 0) return "";
  std::span<const std::size_t> moves;
  if (of_owner != nullptr) moves = of_owner->moves;
  const ClusterPod& pod = view_.pod(index);
  bool has_planned = false;  // all of them have the time of the plan
  for (const std::size_t each : moves) {
    if (each >= before_.size()) {
      has_planned = true;
      continue;
    }
    const std::int64_t ago = elapsed_seconds(view_.now_ns(), before_[each].time_ns);
    if (pod.created_ns == 0 || came_after(pod, before_[each])) {
      return "a pod of its workload was moved " + std::to_string(ago) +
             " s ago, and this one was created since then";
    }
    std::string refusal = pace_refusal(ago);
    if (!refusal.empty()) return refusal;
  }
  std::string refusal = has_planned ? pace_refusal(0) : "";
  if (!refusal.empty()) return refusal;
  if (tried > 0 && pacing_.seconds_between_moves > 0) {
    return "two pods of its workload would move together, of at least " +
           std::to_string(pacing_.seconds_between_moves) + " s between moves";
  }
  if (pacing_.moves_per_workload && moves.size() + tried >= *pacing_.moves_per_workload) {
    return "its workload had " + std::to_string(moves.size() + tried) + " moves within " +
           std::to_string(pacing_.memory_seconds) + " s, of at most " +
           std::to_string(*pacing_.moves_per_workload);
  }
  return "";
}

std::string MoveMemory::pace_refusal(std::int64_t ago) const {
  if (static_cast<std::uint64_t>(ago) >= pacing_.seconds_between_moves) return "";
  return "a pod of its workload was moved " + std::to_string(ago) + " s ago, of at least " +
         std::to_string(pacing_.seconds_between_moves) + " s between moves";
}

std::span<const NodeIndex> MoveMemory::left_by(PodIndex pod) const {
  const OwnerMoves* const of_owner = moves_of(pod);
  if (of_owner == nullptr) return {};
  return of_owner->nodes;
}

bool MoveMemory::was_moved(NodeIndex node, std::string_view pod_namespace,
                           std::string_view name) const {
  return std::ranges::any_of(before_, [&](const Move& each) {
    return each.pod == name && each.pod_namespace == pod_namespace &&
           each.node == view_.node(node).name && is_recent(each);
  });
}

bool MoveMemory::is_recent(const Move& move) const {
  constexpr Nanos kLongest = Nanos{kLeavingSeconds} * kNanosPerUnit;
  const Nanos age = Nanos{view_.now_ns()} - move.time_ns;
  return age <= kLongest && age >= -kLongest;
}

std::vector<NodeIndex> MoveMemory::left_lately() const {
  std::vector<NodeIndex> nodes;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (nodes_[i] && is_recent(before_[i])) nodes.push_back(*nodes_[i]);
  }
  return nodes;
}

void MoveMemory::add(PodIndex index, std::optional<NodeIndex> destination, const Amounts* usage) {
  const ClusterPod& pod = view_.pod(index);
  if (pod.owners.empty()) return;
  PlannedMove planned{.pod = index, .destination = destination};
  if (usage != nullptr && destination) {
    planned.working_set = usage->of(kMemory);
    planned.growth = usage->of(kGrowth);
    planned.cpu_usage = usage->of(kCpu);
  }
  planned_.push_back(planned);
  if (pacing_.memory_seconds > 0) remember(view_.owner_of(index), view_.origin_of(index));
}

const std::vector<Booking>& MoveMemory::bookings() {
  for (; booked_ < planned_.size(); ++booked_) {
    const PlannedMove& planned = planned_[booked_];
    if (!planned.destination) continue;
    Move amounts;
    set_amounts(planned, amounts);
    bookings_.push_back(booking_of(amounts, *planned.destination));
  }
  return bookings_;
}

void MoveMemory::set_amounts(const PlannedMove& planned, Move& of) const {
  of.cpu = view_.summary(planned.pod).cpu;
  of.memory = view_.summary(planned.pod).memory;
  of.working_set = planned.working_set;
  of.growth = planned.growth;
  of.cpu_usage = planned.cpu_usage;
}

Move MoveMemory::move_of(const PlannedMove& planned) const {
  const ClusterPod& pod = view_.pod(planned.pod);
  Move move{std::string(pod.owners.front().uid), std::string(pod.node),
            std::string(pod.pod_namespace), std::string(pod.name), view_.now_ns()};
  if (!planned.destination) return move;
  move.destination = view_.node(*planned.destination).name;
  set_amounts(planned, move);
  return move;
}

void MoveMemory::add_existing_pods() {
  std::unordered_map<std::string_view, std::vector<Move*>> by_owner;
  for (Move& each : before_) {
    if (each.time_ns == view_.now_ns()) by_owner[each.owner].push_back(&each);
  }
  if (by_owner.empty()) return;
  for (const ClusterPod& pod : view_.snapshot().pods) {
    if (pod.owners.empty() || Nanos{pod.created_ns} + kNanosPerUnit <= view_.now_ns()) continue;
    const auto found = by_owner.find(pod.owners.front().uid);
    if (found == by_owner.end()) continue;
    for (Move* const each : found->second) each->existed.emplace_back(pod.uid);
  }
}

MoveHistory MoveMemory::take() && {
  before_.reserve(before_.size() + planned_.size());
  for (const PlannedMove& each : planned_) before_.push_back(move_of(each));
  if (!planned_.empty()) add_existing_pods();
  return std::move(before_);
}

}  // namespace forestall::rebalance
