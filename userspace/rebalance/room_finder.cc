// SPDX-License-Identifier: Apache-2.0
#include "rebalance/room_finder.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "rebalance/node_fit.h"
#include "rebalance/text_key.h"

namespace forestall::rebalance {
namespace {

// Nodes that are compared for one pod.
constexpr int kCompared = 8;
// So few candidates are tried one by one.
constexpr std::size_t kFew = 64;
constexpr std::size_t kSearchedMax = 64;
// After more changes a search is forgotten.
constexpr std::size_t kChangesMax = 256;

double share(Nanos used, Nanos all) {
  if (all <= 0) return std::numeric_limits<double>::max();
  return static_cast<double>(used) / static_cast<double>(all);
}

double share_with(const ClusterView& view, const ClusterPod& pod, NodeIndex node,
                  std::string_view resource) {
  return share(view.requests_on(node).of(resource) + pod.request.of(resource),
               view.node(node).allocatable.of(resource));
}

std::int64_t count_on(const std::unordered_map<NodeIndex, std::int64_t>* counts, NodeIndex node) {
  if (counts == nullptr) return 0;
  const auto found = counts->find(node);
  return found == counts->end() ? 0 : found->second;
}

// Whether `more` is at least `amounts`, of each of its resources.
bool covers(const Amounts& more, const Amounts& amounts) {
  return std::ranges::all_of(
      amounts, [&](const Amount& each) { return more.of(each.resource) >= each.nanos; });
}

bool is_extended(std::string_view resource) {
  return resource != kCpu && resource != kMemory && resource != kPods;
}

}  // namespace

// The best node so far.
struct RoomFinder::Search {
  std::optional<NodeIndex> best;
  std::tuple<std::int64_t, double, NodeIndex> key;
  int compared = 0;

  void compare(const std::tuple<std::int64_t, double, NodeIndex>& other) {
    ++compared;
    if (best && key <= other) return;
    best = std::get<NodeIndex>(other);
    key = other;
  }
};

double RoomFinder::use_of(NodeIndex node) const {
  const Amounts& all = view_.node(node).allocatable;
  const Amounts& used = view_.requests_on(node);
  return std::max({share(used.of(kCpu), all.of(kCpu)), share(used.of(kMemory), all.of(kMemory)),
                   share(nanos_of(kPods, view_.live_pods_on(node)), all.of(kPods))});
}

void RoomFinder::count_siblings() {
  started_ = true;
  followed_ = view_.place_changes().size();
  for (PodIndex i = 0; i < view_.snapshot().pods.size(); ++i) {
    const ClusterPod& pod = view_.pod(i);
    if (!is_live(pod) || pod.owners.empty()) continue;
    if (const auto node = view_.place_of(i)) ++siblings_[pod.owners.front().uid][*node];
  }
}

const RoomFinder::CountsByNode* RoomFinder::siblings_of(const ClusterPod& pod) const {
  if (pod.owners.empty()) return nullptr;
  const auto owned = siblings_.find(pod.owners.front().uid);
  return owned == siblings_.end() ? nullptr : &owned->second;
}

void RoomFinder::follow() {
  if (!started_) count_siblings();
  const auto& changes = view_.place_changes();
  const auto reorder = [&](NodeIndex node) {
    for (Pool* const pool : pools_with_[node]) {
      double& use = pool->use[node];
      pool->by_use.erase({use, node});
      use = use_of(node);
      pool->by_use.emplace(use, node);
    }
  };
  for (; followed_ < changes.size(); ++followed_) {
    const PlaceChange& change = changes[followed_];
    const ClusterPod& pod = view_.pod(change.pod);
    reorder(change.from);
    if (change.to) reorder(*change.to);
    if (!is_live(pod) || pod.owners.empty()) continue;
    auto& by_node = siblings_[pod.owners.front().uid];
    --by_node[change.from];
    if (change.to) ++by_node[*change.to];
  }
}

RoomFinder::Pool& RoomFinder::pool_of(std::span<const NodeIndex> nodes) {
  const auto known = pools_.find({nodes.data(), nodes.size()});
  if (known != pools_.end()) return known->second;
  Pool pool{.eligible = EligibleNodes(view_, nodes), .by_use = {}, .use = {}, .candidates = {}};
  for (const NodeIndex each : nodes) {
    const double use = use_of(each);
    pool.use.emplace(each, use);
    pool.by_use.emplace(use, each);
  }
  const auto added = pools_.emplace(std::pair(nodes.data(), nodes.size()), std::move(pool)).first;
  for (const NodeIndex each : nodes) pools_with_[each].push_back(&added->second);
  return added->second;
}

RoomFinder::Candidates& RoomFinder::candidates_of(Pool& pool, const ClusterPod& pod) {
  const std::vector<NodeIndex>& admitted = pool.eligible.of(pod, {});
  TextKey key;
  for (const Amount& each : pod.request) {
    if (is_extended(each.resource) && each.nanos > 0) key.add(each.resource);
  }
  const auto [known, is_new] =
      pool.candidates.try_emplace({&admitted, std::move(key).take()}, Candidates());
  Candidates& candidates = known->second;
  if (!is_new) return candidates;
  const auto has_all = [&](NodeIndex node) {
    return std::ranges::all_of(pod.request, [&](const Amount& each) {
      return !is_extended(each.resource) || each.nanos <= 0 ||
             view_.node(node).allocatable.of(each.resource) > 0;
    });
  };
  std::ranges::copy_if(admitted, std::back_inserter(candidates.nodes), has_all);
  std::ranges::sort(candidates.nodes);
  if (candidates.nodes.size() > kFew && candidates.nodes.size() < pool.use.size()) {
    candidates.contains.resize(view_.snapshot().nodes.size());
    for (const NodeIndex each : candidates.nodes) candidates.contains[each] = true;
  }
  return candidates;
}

// A pod that needs no less than an earlier one fits only the nodes that had room for that, and
// those that were freed since.
const std::vector<NodeIndex>* RoomFinder::known_rooms(PodIndex pod, const Rooms& rooms,
                                                      Candidates& candidates) const {
  const auto& changes = view_.place_changes();
  for (Candidates::Searched& each : candidates.searched) {
    if (changes.size() - each.followed > kChangesMax) continue;
    if (!covers(view_.pod(pod).request, each.request)) continue;
    if (rooms.usage != nullptr && !covers(*rooms.usage, each.usage)) continue;
    for (; each.added < changes.size(); ++each.added) {
      const NodeIndex freed = changes[each.added].from;
      if (!std::ranges::binary_search(candidates.nodes, freed)) continue;
      const auto place = std::ranges::lower_bound(each.with_room, freed);
      if (place == each.with_room.end() || *place != freed) each.with_room.insert(place, freed);
    }
    return &each.with_room;
  }
  return nullptr;
}

void RoomFinder::remember(PodIndex pod, const Rooms& rooms, const Pool& pool,
                          Candidates& candidates) const {
  std::vector<NodeIndex> with_room;
  for (const auto& [use, node] : pool.by_use) {
    if (!candidates.has(node) || !may_have_room(pod, node, rooms)) continue;
    with_room.push_back(node);
    if (with_room.size() > kFew) return;
  }
  Candidates::Searched added;
  added.request = view_.pod(pod).request;
  if (rooms.usage != nullptr) added.usage = *rooms.usage;
  added.with_room = std::move(with_room);
  std::ranges::sort(added.with_room);
  added.followed = followed_;
  added.added = followed_;
  std::erase_if(candidates.searched, [&](const Candidates::Searched& each) {
    return covers(each.request, added.request) && covers(each.usage, added.usage);
  });
  if (candidates.searched.size() >= kSearchedMax) {
    candidates.searched.erase(candidates.searched.begin());
  }
  candidates.searched.push_back(std::move(added));
}

bool RoomFinder::may_have_room(PodIndex pod, NodeIndex node, const Rooms& rooms) const {
  return ((!rooms.accepts || rooms.accepts(node)) && has_resources(view_, pod, node)) ||
         view_.node(node).name == view_.pod(pod).node;
}

std::optional<NodeIndex> RoomFinder::find(PodIndex index, const Rooms& rooms) {
  follow();
  const ClusterPod& pod = view_.pod(index);
  Pool& pool = pool_of(rooms.nodes);
  Candidates& candidates = candidates_of(pool, pod);
  Search search;
  const bool moved_before = memory_ != nullptr && memory_->has_moves(index);
  const auto* const siblings = siblings_of(pod);
  // What takes the least time comes first.
  const auto compare = [&](NodeIndex node) {
    if (rooms.accepts && !rooms.accepts(node)) return;
    if (!fits_eligible(view_, index, node) || !has_resources(view_, index, node)) return;
    if (view_.node(node).name == pod.node) return;
    if (moved_before && memory_->left(index, node)) return;
    const double used =
        std::max(share_with(view_, pod, node, kCpu), share_with(view_, pod, node, kMemory));
    search.compare({count_on(siblings, node), used, node});
  };
  if (candidates.nodes.size() <= kFew) {
    std::ranges::for_each(candidates.nodes, compare);
    return search.best;
  }
  if (const auto* const nodes = known_rooms(index, rooms, candidates)) {
    std::ranges::for_each(*nodes, compare);
    return search.best;
  }
  for (const auto& [use, node] : pool.by_use) {
    if (!candidates.has(node)) continue;
    compare(node);
    if (search.compared == kCompared) return search.best;
  }
  remember(index, rooms, pool, candidates);
  return search.best;
}

}  // namespace forestall::rebalance
