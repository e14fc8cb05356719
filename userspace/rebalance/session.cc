// SPDX-License-Identifier: Apache-2.0
#include "rebalance/session.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "rebalance/node_fit.h"

namespace forestall::rebalance {
namespace {

constexpr const char* kTotalLimit =
    "maximum number of evicted pods per a descheduling cycle reached";
constexpr const char* kNodeLimit = "maximum number of evicted pods per node reached";
constexpr const char* kNamespaceLimit = "maximum number of evicted pods per namespace reached";

// BestEffort first.
int rank_of(QosClass qos) {
  switch (qos) {
    case QosClass::best_effort: return 0;
    case QosClass::burstable: return 1;
    case QosClass::guaranteed: return 2;
  }
  return 0;
}

// The last but one is the negative surplus.
using EvictionKey = std::tuple<bool, std::int32_t, int, bool, double, PodIndex>;

EvictionKey eviction_key(const ClusterView& view, PodIndex index, double surplus = 0) {
  const PodSummary& pod = view.summary(index);
  return {pod.has_priority,       pod.priority, rank_of(pod.qos),
          pod.prefer_no_eviction, -surplus,     index};
}

}  // namespace

PluginSession::PluginSession(ClusterView& view, const Policy& policy, const DefaultEvictor& evictor,
                             std::span<const NodeIndex> nodes, EvictionCounts& counts,
                             MoveMemory& memory, RoomFinder& room_finder, ExplainOptions& explain,
                             const Requester& requester, PluginReport& run)
    : view_(view),
      policy_(policy),
      evictor_(evictor),
      nodes_(nodes),
      counts_(counts),
      memory_(memory),
      room_finder_(room_finder),
      explain_(explain),
      run_(run),
      requester_(requester),
      profile_(std::string(requester.profile)),
      plugin_(std::string(requester.plugin)),
      no_room_(std::string("no other node has room for it")) {
  room_finder_.start_plugin();
}

void PluginSession::consider(PodIndex pod, std::string problem) {
  if (!explain_.reasons) return;
  ConsideredPod& considered = run_.pods.emplace_back();
  considered.pod = pod;
  considered.filter = evictor_.filter_reasons(pod);
  considered.pre_eviction = evictor_.pre_eviction_reasons(pod);
  if (!problem.empty()) considered.filter.push_back(std::move(problem));
  const std::size_t nodes = view_.snapshot().nodes.size();
  if (explain_.fits_left < nodes) {
    fits_omitted_ = true;
    return;
  }
  explain_.fits_left -= nodes;
  for (NodeIndex node = 0; node < nodes; ++node) {
    considered.fits.push_back({node, fit_problem(view_, pod, node)});
  }
}

void PluginSession::note_limit(const char* message) {
  if (std::find(run_.limits.begin(), run_.limits.end(), message) == run_.limits.end()) {
    run_.limits.emplace_back(message);
  }
}

void PluginSession::limit(PodIndex pod, const char* message) {
  note_limit(message);
  run_.limited.push_back({pod, message});
}

// With the first pod only: the same limit stops all that follow.
void PluginSession::limit_total(PodIndex pod) {
  if (std::ranges::count(run_.limits, kTotalLimit) == 0) limit(pod, kTotalLimit);
}

void PluginSession::record(PodIndex pod, SharedText reason, SharedText refused,
                           std::optional<NodeIndex> destination) {
  run_.evictions.push_back(
      {pod, profile_, plugin_, std::move(reason), std::move(refused), destination});
}

EvictResult PluginSession::evict(PodIndex pod, SharedText reason, const Rooms* rooms) {
  // Its move was remembered, and its room booked, when the eviction was accepted.
  if (view_.summary(pod).evicted_in_background) {
    record(pod, std::move(reason), {});
    return EvictResult::evicted;
  }
  std::string refusal = memory_.refusal(pod);
  if (!refusal.empty()) {
    counts_.release(requester_, pod);
    record(pod, std::move(reason), std::move(refusal));
    return EvictResult::refused;
  }
  std::optional<NodeIndex> destination;
  const bool wants_room =
      view_.corrects(Correction::room_first) || (rooms != nullptr && rooms->required);
  // After the last seat no room is searched for the many pods that follow.
  if (wants_room && comes_back(view_.summary(pod)) && !counts_.reaches_limit(requester_, pod)) {
    const Rooms anywhere{.nodes = evictor_.fit_nodes(), .outlives_plugin = true};
    destination = room_finder_.find(pod, rooms == nullptr ? anywhere : *rooms);
    if (!destination) {
      counts_.release(requester_, pod);
      record(pod, std::move(reason), no_room_);
      return EvictResult::refused;
    }
  }
  const EvictResult result = counts_.evict(requester_, pod, refusal);
  if (result != EvictResult::evicted) destination.reset();
  switch (result) {
    case EvictResult::total_limit: limit_total(pod); break;
    case EvictResult::node_limit: limit(pod, kNodeLimit); break;
    case EvictResult::namespace_limit: limit(pod, kNamespaceLimit); break;
    case EvictResult::evicted:
    case EvictResult::refused:
      record(pod, std::move(reason), std::move(refusal), destination);
      break;
  }
  if (result == EvictResult::evicted) {
    memory_.add(pod, destination, rooms != nullptr && rooms->measured ? rooms->usage : nullptr);
  }
  if (destination) view_.move(pod, *destination);
  return next_of(result, rooms != nullptr);
}

// In the order of evict().
std::string PluginSession::try_move(PodIndex pod, const Rooms& rooms,
                                    std::optional<NodeIndex>& destination) {
  destination.reset();
  if (!trial_) trial_ = view_.place_changes().size();
  const OwnerId owner = view_.owner_of(pod);
  const auto tried = tried_by_.find(owner);
  std::string refusal = memory_.refusal(pod, tried == tried_by_.end() ? 0 : tried->second);
  if (!refusal.empty()) return refusal;
  std::optional<NodeIndex> found;
  if (comes_back(view_.summary(pod)) && !counts_.reaches_limit(requester_, pod)) {
    found = room_finder_.find(pod, rooms);
    if (!found) return std::string(no_room_.view());
  }
  switch (counts_.try_evict(requester_, pod, refusal)) {
    case EvictResult::evicted: break;
    case EvictResult::refused: return refusal;
    case EvictResult::total_limit: return tried_limit(kTotalLimit);
    case EvictResult::node_limit: return tried_limit(kNodeLimit);
    case EvictResult::namespace_limit: return tried_limit(kNamespaceLimit);
  }
  if (owner != kNoOwner) ++tried_by_[owner];
  if (found) view_.move(pod, *found);
  destination = found;
  return "";
}

std::string PluginSession::tried_limit(const char* message) {
  note_limit(message);
  return message;
}

void PluginSession::end_trial() {
  if (trial_) view_.take_back(*std::exchange(trial_, std::nullopt));
  tried_by_.clear();
  counts_.end_trial();
}

EvictResult PluginSession::next_of(EvictResult result, bool is_alternative) const {
  const bool is_full = result == EvictResult::total_limit || result == EvictResult::node_limit;
  if (!is_full || !counts_.holds_seats()) return result;
  return is_alternative ? EvictResult::node_limit : EvictResult::namespace_limit;
}

bool evicted_before(const ClusterView& view, PodIndex a, PodIndex b) {
  return eviction_key(view, a) < eviction_key(view, b);
}

void sort_by_eviction(const ClusterView& view, std::vector<PodIndex>& pods,
                      std::span<const double> surplus) {
  std::vector<EvictionKey> keys;
  keys.reserve(pods.size());
  for (std::size_t i = 0; i < pods.size(); ++i) {
    keys.push_back(eviction_key(view, pods[i], surplus.empty() ? 0 : surplus[i]));
  }
  std::ranges::sort(keys);
  std::ranges::transform(keys, pods.begin(),
                         [](const EvictionKey& key) { return std::get<PodIndex>(key); });
}

bool in_scope(const PodScope& scope, const ClusterPod& pod) {
  return (scope.namespaces.accepts_all() || scope.namespaces.accepts(pod.pod_namespace)) &&
         (!scope.selector || matches(*scope.selector, pod.labels));
}

std::vector<PodIndex> live_pods(const ClusterView& view, NodeIndex node) {
  std::vector<PodIndex> pods;
  for (const PodIndex each : view.pods_on(node)) {
    if (view.summary(each).live) pods.push_back(each);
  }
  return pods;
}

}  // namespace forestall::rebalance
