// SPDX-License-Identifier: Apache-2.0
#include "rebalance/eviction_counts.h"

#include <algorithm>

#include "base/quotes.h"
#include "rebalance/selector.h"

namespace forestall::rebalance {
namespace {

bool reached(const std::optional<std::uint64_t>& limit, std::uint64_t count) {
  return limit && count + 1 > *limit;
}

std::string ignored(const ClusterPod& pod, const std::string& answer) {
  return "error when evicting pod (ignoring) " + in_double_quotes(pod.name) + ": " + answer;
}

EvictResult result_of(EvictionLimit limit) {
  switch (limit) {
    case EvictionLimit::total: return EvictResult::total_limit;
    case EvictionLimit::node: return EvictResult::node_limit;
    case EvictionLimit::pod_namespace: return EvictResult::namespace_limit;
    case EvictionLimit::budget: break;
  }
  return EvictResult::refused;
}

std::uint64_t count_of(const std::unordered_map<std::string_view, std::uint64_t>& counts,
                       std::string_view name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace

EvictionCounts::EvictionCounts(const Policy& policy, const ClusterView& view, WaitingMoves* waiting)
    : policy_(policy), view_(view), waiting_(waiting), evicted_(view.snapshot().pods.size()) {
  for (const DisruptionBudget& each : view.snapshot().budgets) {
    allowed_.push_back(each.disruptions_allowed);
  }
  kept_.resize(allowed_.size());
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    if (view.summary(i).evicted_in_background) count(evictions_, i, 1);
  }
}

// Counts by name only if there is a limit.
void EvictionCounts::count(Seats& seats, PodIndex index, int change) const {
  const ClusterPod& pod = view_.pod(index);
  const auto by = static_cast<std::uint64_t>(change);
  seats.total += by;
  if (policy_.evictions_per_node && !pod.node.empty()) seats.by_node[pod.node] += by;
  if (policy_.evictions_per_namespace) seats.by_namespace[pod.pod_namespace] += by;
}

std::optional<EvictionLimit> EvictionCounts::reached_limit(PodIndex index, const Held* own) const {
  const ClusterPod& pod = view_.pod(index);
  const std::uint64_t mine = own == nullptr ? 0 : 1;
  if (reached(policy_.evictions_total, evictions_.total + held_seats_.total - mine)) {
    return EvictionLimit::total;
  }
  if (policy_.evictions_per_node && !pod.node.empty()) {
    const bool held_there = own != nullptr && view_.pod(own->pod).node == pod.node;
    const std::uint64_t held = count_of(held_seats_.by_node, pod.node) - (held_there ? 1 : 0);
    if (reached(policy_.evictions_per_node, count_of(evictions_.by_node, pod.node) + held)) {
      return EvictionLimit::node;
    }
  }
  if (policy_.evictions_per_namespace) {
    const std::uint64_t held = count_of(held_seats_.by_namespace, pod.pod_namespace) - mine;
    const std::uint64_t evictions = count_of(evictions_.by_namespace, pod.pod_namespace);
    if (reached(policy_.evictions_per_namespace, evictions + held)) {
      return EvictionLimit::pod_namespace;
    }
  }
  return std::nullopt;
}

// pkg/registry/core/pod/storage/eviction.go: pods that are pending, terminating or have ended need
// no budget. A pod that the running plugin evicted already is terminating, so evicting it again
// succeeds.
std::vector<std::size_t> EvictionCounts::budgets_of(PodIndex index) const {
  const ClusterPod& pod = view_.pod(index);
  const bool terminating = pod.terminating || evicted_[index];
  std::vector<std::size_t> selecting;
  if (!is_live(pod) || pod.phase == PodPhase::pending || terminating) return selecting;
  for (const std::size_t each : view_.budgets_in(pod.pod_namespace)) {
    const auto& selector = view_.snapshot().budgets[each].selector;
    if (selector && matches(*selector, pod.labels)) selecting.push_back(each);
  }
  return selecting;
}

std::string EvictionCounts::budget_refusal(const ClusterPod& pod,
                                           const std::vector<std::size_t>& budgets,
                                           const Held* own) const {
  const auto left = [&](std::size_t each) {
    const bool is_own = own != nullptr && std::ranges::count(own->budgets, each) > 0;
    return allowed_[each] - kept_[each] + (is_own ? 1 : 0);
  };
  if (std::ranges::any_of(budgets, [&](std::size_t each) { return allowed_[each] <= 0; })) {
    return ignored(pod, "Cannot evict pod as it would violate the pod's disruption budget.");
  }
  if (std::ranges::any_of(budgets, [&](std::size_t each) { return left(each) <= 0; })) {
    return "a move that waits longer gets the disruption that the pod's budget allows";
  }
  return "";
}

std::string EvictionCounts::budgets_refusal(const ClusterPod& pod, std::size_t budgets) {
  if (budgets <= 1) return "";
  return ignored(pod,
                 "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                 "does not support.");
}

std::string EvictionCounts::missing_uid(const ClusterPod& pod) {
  if (!pod.uid.empty()) return "";
  return "Pod " + std::string(pod.pod_namespace) + "/" + std::string(pod.name) + " is missing UID";
}

// More than one budget is an error.
std::string EvictionCounts::api_refusal(PodIndex index, const std::vector<std::size_t>& budgets) {
  std::string refusal = budgets_refusal(view_.pod(index), budgets.size());
  if (!refusal.empty()) return refusal;
  for (const std::size_t each : budgets) --allowed_[each];
  return "";
}

bool EvictionCounts::reaches_limit(const Requester& by, PodIndex index) {
  const auto seat = find(by, index);
  return reached_limit(index, seat == held_.end() ? nullptr : &seat->second).has_value();
}

EvictResult EvictionCounts::try_evict(const Requester& by, PodIndex index, std::string& refusal) {
  const ClusterPod& pod = view_.pod(index);
  refusal = missing_uid(pod);
  if (!refusal.empty()) return EvictResult::refused;
  if (pod.evicted_in_background) return EvictResult::evicted;
  const auto seat = find(by, index);
  const Held* const own = seat == held_.end() ? nullptr : &seat->second;
  // It does not wait for a seat, because one does not let several pods leave together.
  if (const auto limit = reached_limit(index, own)) return result_of(*limit);
  // What was decided before the refusal must stay.
  if (!pod.refused.empty() && !pod.refused_in_plan) {
    refusal = ignored(pod, std::string(pod.refused));
    if (waiting_ != nullptr) waiting_->keep(by, index);
    return EvictResult::refused;
  }
  const std::vector<std::size_t> budgets = budgets_of(index);
  refusal = budget_refusal(pod, budgets, own);
  if (!refusal.empty()) {
    if (waiting_ != nullptr) waiting_->refused(by, index, EvictionLimit::budget);
    return EvictResult::refused;
  }
  refusal = budgets_refusal(pod, budgets.size());
  if (!refusal.empty()) return EvictResult::refused;
  count(evictions_, index, 1);
  tried_.push_back(index);
  if (seat != held_.end()) {
    count_held(seat->second, -1);
    tried_seats_.push_back(held_.extract(seat));
  }
  return EvictResult::evicted;
}

void EvictionCounts::end_trial() {
  for (const PodIndex each : tried_) count(evictions_, each, -1);
  tried_.clear();
  for (HeldSeats::node_type& each : tried_seats_) {
    count_held(each.mapped(), 1);
    held_.insert(std::move(each));
  }
  tried_seats_.clear();
}

EvictResult EvictionCounts::evict(const Requester& by, PodIndex index, std::string& refusal) {
  const ClusterPod& pod = view_.pod(index);
  refusal = missing_uid(pod);
  if (!refusal.empty()) return EvictResult::refused;
  // It counts already.
  if (pod.evicted_in_background) return EvictResult::evicted;
  const auto seat = find(by, index);
  const Held* const own = seat == held_.end() ? nullptr : &seat->second;
  if (const auto limit = reached_limit(index, own)) {
    if (waiting_ != nullptr) waiting_->refused(by, index, *limit);
    return result_of(*limit);
  }
  if (!pod.refused.empty()) {
    refusal = ignored(pod, std::string(pod.refused));
    if (waiting_ != nullptr && !pod.refused_in_plan) waiting_->keep(by, index);
    release(by, index);
    return EvictResult::refused;
  }
  const std::vector<std::size_t> budgets = budgets_of(index);
  refusal = budget_refusal(pod, budgets, own);
  if (!refusal.empty()) {
    if (waiting_ != nullptr) waiting_->refused(by, index, EvictionLimit::budget);
    return EvictResult::refused;
  }
  refusal = api_refusal(index, budgets);
  if (!refusal.empty()) {
    release(by, index);
    return EvictResult::refused;
  }
  count(evictions_, index, 1);
  evicted_[index] = true;
  if (seat != held_.end()) release(seat);
  if (waiting_ != nullptr) waiting_->evicted(by, index);
  return EvictResult::evicted;
}

EvictionCounts::LimitKey EvictionCounts::limit_of(const WaitingMove& move, PodIndex index,
                                                  const std::vector<std::size_t>& budgets) const {
  const ClusterPod& pod = view_.pod(index);
  std::string_view name;
  if (move.limit == EvictionLimit::node) name = pod.node;
  if (move.limit == EvictionLimit::pod_namespace) name = pod.pod_namespace;
  const std::size_t budget =
      move.limit == EvictionLimit::budget && !budgets.empty() ? budgets.front() + 1 : 0;
  return {move.limit, name, budget};
}

bool EvictionCounts::can_hold(const WaitingMove& move, PodIndex index) const {
  if (reached_limit(index, nullptr)) return false;
  const std::vector<std::size_t> budgets = budgets_of(index);
  const auto allows = [&](std::size_t each) { return allowed_[each] > kept_[each]; };
  return budgets.size() <= 1 && std::ranges::all_of(budgets, allows) &&
         !held_limits_.contains(limit_of(move, index, budgets));
}

void EvictionCounts::hold(const WaitingMove& move, PodIndex index) {
  const ClusterPod& pod = view_.pod(index);
  Held held{.pod = index, .node = move.node, .budgets = budgets_of(index)};
  held_limits_.insert(limit_of(move, index, held.budgets));
  count_held(held, 1);
  held_.emplace(HeldKey{{move.profile, move.plugin}, pod.pod_namespace, workload_of(pod)},
                std::move(held));
}

EvictionCounts::HeldSeats::iterator EvictionCounts::find(const Requester& by, PodIndex index) {
  if (held_.empty()) return held_.end();
  const ClusterPod& pod = view_.pod(index);
  const auto [first, last] = held_.equal_range({by, pod.pod_namespace, workload_of(pod)});
  const auto fits = [&](const auto& each) {
    return each.second.node.empty() || each.second.node == pod.node;
  };
  const auto found = std::find_if(first, last, fits);
  return found == last ? held_.end() : found;
}

void EvictionCounts::count_held(const Held& held, int change) {
  count(held_seats_, held.pod, change);
  for (const std::size_t each : held.budgets) kept_[each] += change;
}

EvictionCounts::HeldSeats::iterator EvictionCounts::release(HeldSeats::iterator held) {
  count_held(held->second, -1);
  return held_.erase(held);
}

void EvictionCounts::release(const Requester& by, PodIndex index) {
  if (held_.empty()) return;
  const ClusterPod& pod = view_.pod(index);
  auto [each, last] = held_.equal_range({by, pod.pod_namespace, workload_of(pod)});
  while (each != last) each = each->second.pod == index ? release(each) : std::next(each);
}

void EvictionCounts::release_all(const Requester& by) {
  for (auto each = held_.begin(); each != held_.end();) {
    each = std::get<Requester>(each->first) == by ? release(each) : std::next(each);
  }
}

}  // namespace forestall::rebalance
