// SPDX-License-Identifier: Apache-2.0
#include "rebalance/waiting_moves.h"

#include <algorithm>
#include <utility>

namespace forestall::rebalance {
namespace {

bool waited_longer(const WaitingMove& a, const WaitingMove& b) {
  const auto key = [](const WaitingMove& each) {
    return std::tie(each.since_ns, each.pod_namespace, each.pod, each.profile, each.plugin,
                    each.node, each.workload);
  };
  return key(a) < key(b);
}

void keep_oldest(std::vector<WaitingMove>& waiting) {
  std::ranges::sort(waiting, waited_longer);
  std::map<std::string, std::size_t, std::less<>> of_namespace;
  std::erase_if(waiting, [&](const WaitingMove& each) {
    return ++of_namespace[each.pod_namespace] > kWaitingOfNamespaceMax;
  });
  if (waiting.size() > kWaitingMax) waiting.resize(kWaitingMax);
}

// The last one is the node.
using MoveKey = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view,
                           std::string_view>;

MoveKey key_on(const WaitingMove& move, std::string_view node) {
  return {move.profile, move.plugin, move.pod_namespace, move.workload, node};
}

// The time at which the move of a pod that was not evicted is due, if it was due before.
std::int64_t due_since(std::int64_t before_ns, std::int64_t now_ns) {
  const Nanos due = Nanos{now_ns} - Nanos{kWaitingSeconds} * kNanosPerUnit;
  return before_ns < due ? static_cast<std::int64_t>(due) : std::min(before_ns, now_ns);
}

}  // namespace

std::string_view to_string(EvictionLimit each) {
  switch (each) {
    case EvictionLimit::total: return "total";
    case EvictionLimit::node: return "node";
    case EvictionLimit::pod_namespace: return "namespace";
    case EvictionLimit::budget: return "budget";
  }
  return "";
}

std::optional<EvictionLimit> parse_eviction_limit(std::string_view word) {
  for (const EvictionLimit each : {EvictionLimit::total, EvictionLimit::node,
                                   EvictionLimit::pod_namespace, EvictionLimit::budget}) {
    if (word == to_string(each)) return each;
  }
  return std::nullopt;
}

std::string_view workload_of(const ClusterPod& pod) {
  return pod.owners.empty() ? pod.uid : pod.owners.front().uid;
}

WaitingMoves::WaitingMoves(std::vector<WaitingMove> before, const ClusterView& view)
    : view_(view), before_(std::move(before)) {
  for (WaitingMove& each : before_) {
    // A clock that was set back must not make a move wait longer.
    each.since_ns = std::min(each.since_ns, view.now_ns());
  }
  // Of several waits of one move, as a file may have them, the longest.
  std::ranges::sort(before_, waited_longer);
  std::set<MoveKey> known;
  std::vector<bool> repeats;
  for (const WaitingMove& each : before_) {
    repeats.push_back(!known.insert(key_on(each, each.node)).second);
  }
  std::size_t next = 0;
  std::erase_if(before_, [&](const WaitingMove&) { return repeats[next++]; });
  for (const WaitingMove& each : before_) {
    since_.emplace(Key{{each.profile, each.plugin}, each.pod_namespace, each.workload, each.node},
                   each.since_ns);
  }
}

std::vector<const WaitingMove*> WaitingMoves::due() const {
  std::vector<const WaitingMove*> due;
  for (const WaitingMove& each : before_) {
    const Nanos waited = Nanos{view_.now_ns()} - each.since_ns;
    if (waited >= Nanos{kWaitingSeconds} * kNanosPerUnit) due.push_back(&each);
  }
  std::ranges::sort(due, [](const auto* a, const auto* b) { return waited_longer(*a, *b); });
  std::map<std::string_view, std::size_t> of_namespace;
  std::vector<std::pair<std::size_t, const WaitingMove*>> turns;
  for (const WaitingMove* each : due) turns.emplace_back(of_namespace[each->pod_namespace]++, each);
  std::ranges::stable_sort(turns, {}, &std::pair<std::size_t, const WaitingMove*>::first);
  std::ranges::transform(turns, due.begin(), [](const auto& each) { return each.second; });
  return due;
}

WaitingMoves::Key WaitingMoves::key_of(const Requester& by, PodIndex index,
                                       std::string_view node) const {
  const ClusterPod& pod = view_.pod(index);
  return {by, pod.pod_namespace, workload_of(pod), node};
}

void WaitingMoves::refused(const Requester& by, PodIndex pod, EvictionLimit limit) {
  const bool by_node = limit == EvictionLimit::node;
  refused_.try_emplace(key_of(by, pod, by_node ? view_.pod(pod).node : ""), Refused{pod, limit});
}

void WaitingMoves::evicted(const Requester& by, PodIndex pod) {
  evicted_.insert(key_of(by, pod, ""));
  evicted_.insert(key_of(by, pod, view_.pod(pod).node));
}

void WaitingMoves::keep(const Requester& by) {
  kept_.insert(by);
}

void WaitingMoves::keep(const Requester& by, PodIndex pod) {
  kept_moves_.insert(key_of(by, pod, ""));
  kept_moves_.insert(key_of(by, pod, view_.pod(pod).node));
}

void WaitingMoves::failed(const Requester& by) {
  failed_.insert(by);
}

// The limit may be another one than before.
std::int64_t WaitingMoves::since(const Key& key, const Refused& refused) const {
  std::int64_t since = view_.now_ns();
  if (evicted_.contains(key)) return since;
  Key before = key;
  for (const std::string_view node : {std::string_view(), view_.pod(refused.pod).node}) {
    std::get<3>(before) = node;
    const auto known = since_.find(before);
    if (known != since_.end()) since = std::min(since, known->second);
  }
  return since;
}

std::vector<WaitingMove> WaitingMoves::take() && {
  std::vector<WaitingMove> waiting;
  for (const auto& [key, refused] : refused_) {
    const auto& [by, pod_namespace, workload, node] = key;
    waiting.push_back({.profile = std::string(by.profile),
                       .plugin = std::string(by.plugin),
                       .workload = std::string(workload),
                       .pod_namespace = std::string(pod_namespace),
                       .pod = std::string(view_.pod(refused.pod).name),
                       .node = std::string(node),
                       .limit = refused.limit,
                       .since_ns = since(key, refused)});
  }
  for (const WaitingMove& each : before_) {
    const Requester by{each.profile, each.plugin};
    const Key key{by, each.pod_namespace, each.workload, each.node};
    if (refused_.contains(key)) continue;
    if (failed_.contains(by)) {
      waiting.push_back(each);
      waiting.back().since_ns = view_.now_ns();
    } else if (kept_.contains(by) || kept_moves_.contains(key)) {
      waiting.push_back(each);
      if (evicted_.contains(key)) waiting.back().since_ns = view_.now_ns();
    }
  }
  keep_oldest(waiting);
  return waiting;
}

std::vector<WaitingMove> waits_after(std::vector<WaitingMove> planned,
                                     const std::vector<WaitingMove>& before,
                                     const std::vector<RequestedMove>& requested) {
  std::map<MoveKey, const WaitingMove*> waited;
  for (const WaitingMove& each : before) waited.emplace(key_on(each, each.node), &each);
  std::set<MoveKey> evicted;
  for (const RequestedMove& each : requested) {
    if (each.end != RequestEnd::evicted) continue;
    evicted.insert(key_on(each.move, ""));
    evicted.insert(key_on(each.move, each.move.node));
  }
  std::map<MoveKey, WaitingMove> restored;
  for (const auto& [move, end] : requested) {
    if (end == RequestEnd::evicted) continue;
    bool has_waited = false;
    for (const std::string_view node : {std::string_view(), std::string_view(move.node)}) {
      const auto found = waited.find(key_on(move, node));
      if (found == waited.end()) continue;
      has_waited = true;
      const auto again = restored.try_emplace(found->first, *found->second).first;
      again->second.since_ns = evicted.contains(found->first)
                                   ? move.since_ns
                                   : due_since(found->second->since_ns, move.since_ns);
    }
    if (has_waited || end != RequestEnd::refused_by_budget) continue;
    restored.try_emplace(key_on(move, ""), move).first->second.node.clear();
  }
  for (WaitingMove& each : planned) {
    const auto found = restored.find(key_on(each, each.node));
    if (found == restored.end()) continue;
    each.since_ns = std::min(each.since_ns, found->second.since_ns);
    restored.erase(found);
  }
  for (auto& [key, move] : restored) planned.push_back(std::move(move));
  keep_oldest(planned);
  return planned;
}

}  // namespace forestall::rebalance
