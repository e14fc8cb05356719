// SPDX-License-Identifier: Apache-2.0
#include "rebalance/room_finder.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

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

double share(Nanos used, double all) {
  if (all <= 0) return std::numeric_limits<double>::max();
  return to_double(used) / all;
}

// Whether `more` is at least `amounts`, of each of its resources.
bool covers(const Amounts& more, const Amounts& amounts) {
  return std::ranges::all_of(
      amounts, [&](const Amount& each) { return more.of(each.resource) >= each.nanos; });
}

bool is_extended(std::string_view resource) {
  return !is_same_resource(resource, kCpu) && !is_same_resource(resource, kMemory) &&
         !is_same_resource(resource, kPods);
}

}  // namespace

// The best node so far.
class RoomFinder::Search {
 public:
  // `siblings`: the live pods of the pod's owner, by node; null: it has none.
  Search(const ClusterView& view, PodIndex pod, const Rooms& rooms, const DomainCounts* siblings)
      : view_(view),
        rooms_(rooms),
        need_(view, pod),
        cpu_(view.summary(pod).cpu),
        memory_(view.summary(pod).memory),
        siblings_(siblings),
        sibling_bits_(siblings == nullptr ? 0 : siblings->bits_above(0)),
        origin_(view.origin_of(pod)) {}

  // Whether the node does with the pod's requests and usage.
  [[nodiscard]] bool may_have_room(NodeIndex node) const {
    return need_.fits(node) && (!rooms_.accepts || rooms_.accepts(node));
  }
  [[nodiscard]] bool is_own(NodeIndex node) const { return node == origin_; }

  void compare(NodeIndex node) {
    const NodeRoom& room = view_.room_on(node);
    const double used = std::max(share(room.requested_cpu + cpu_, room.whole_cpu),
                                 share(room.requested_memory + memory_, room.whole_memory));
    const auto domain = static_cast<DomainId>(node);
    const std::int64_t alike = (sibling_bits_ & bit_of(domain)) == 0 ? 0 : siblings_->of(domain);
    ++compared_;
    const Key key{alike, used, node};
    if (best_ && *best_ <= key) return;
    best_ = key;
  }

  [[nodiscard]] int compared() const { return compared_; }
  [[nodiscard]] std::optional<NodeIndex> best() const {
    if (!best_) return std::nullopt;
    return std::get<NodeIndex>(*best_);
  }

 private:
  using Key = std::tuple<std::int64_t, double, NodeIndex>;

  const ClusterView& view_;
  const Rooms& rooms_;
  const PodNeed need_;
  const Nanos cpu_;
  const Nanos memory_;
  const DomainCounts* const siblings_;
  const std::uint64_t sibling_bits_;  // has those of all nodes with siblings
  const std::optional<NodeIndex> origin_;
  std::optional<Key> best_;
  int compared_ = 0;
};

double RoomFinder::use_of(NodeIndex node) const {
  const NodeRoom& room = view_.room_on(node);
  return std::max({share(room.requested_cpu, room.whole_cpu),
                   share(room.requested_memory, room.whole_memory),
                   share(nanos_of(kPods, view_.live_pods_on(node)), room.whole_pods)});
}

void RoomFinder::count_siblings() {
  started_ = true;
  followed_ = view_.place_changes().size();
  siblings_.resize(view_.owner_count());
  for (PodIndex i = 0; i < view_.snapshot().pods.size(); ++i) {
    if (const auto node = view_.place_of(i)) count_sibling(i, *node, 1);
  }
}

void RoomFinder::count_sibling(PodIndex pod, NodeIndex node, int change) {
  const OwnerId owner = view_.owner_of(pod);
  if (owner == kNoOwner || !view_.summary(pod).live) return;
  siblings_[owner].add(static_cast<DomainId>(node), change);
}

void RoomFinder::follow() {
  if (!started_) count_siblings();
  const auto& changes = view_.place_changes();
  const auto reorder = [&](NodeIndex node) {
    for (Pool* const pool : pools_with_[node]) {
      double& use = pool->use[node];
      const double before = std::exchange(use, use_of(node));
      pool->by_use.move({before, node}, {use, node});
    }
  };
  for (; followed_ < changes.size(); ++followed_) {
    const PlaceChange& change = changes[followed_];
    reorder(change.from);
    count_sibling(change.pod, change.from, -1);
    if (!change.to) continue;
    reorder(*change.to);
    count_sibling(change.pod, *change.to, 1);
  }
}

void RoomFinder::start_plugin() {
  for (std::vector<Pool*>& pools : pools_with_) {
    std::erase_if(pools, [](const Pool* each) { return !each->outlives_plugin; });
  }
  std::erase_if(pools_, [](const auto& each) { return !each.second.outlives_plugin; });
  for (auto& [list, pool] : pools_) {
    for (auto& [rules, candidates] : pool.candidates) candidates.searched.clear();
  }
}

RoomFinder::Pool& RoomFinder::pool_of(std::span<const NodeIndex> nodes, bool outlives_plugin) {
  const auto known = pools_.find({nodes.data(), nodes.size()});
  if (known != pools_.end()) return known->second;
  Pool pool{.eligible = EligibleNodes(view_, nodes),
            .size = nodes.size(),
            .outlives_plugin = outlives_plugin,
            .by_use = NodesByUse(),
            .use = {},
            .candidates = {},
            .by_class = {}};
  const bool few = nodes.size() <= kFew;
  if (!few) order(pool, nodes);
  const auto added = pools_.emplace(std::pair(nodes.data(), nodes.size()), std::move(pool)).first;
  if (few) return added->second;
  for (const NodeIndex each : nodes) pools_with_[each].push_back(&added->second);
  return added->second;
}

void RoomFinder::order(Pool& pool, std::span<const NodeIndex> nodes) const {
  pool.use.resize(view_.snapshot().nodes.size());
  std::vector<NodesByUse::Entry> entries;
  for (const NodeIndex each : nodes) {
    pool.use[each] = use_of(each);
    entries.push_back({pool.use[each], each});
  }
  pool.by_use = NodesByUse(std::move(entries));
}

RoomFinder::Candidates& RoomFinder::candidates_of(Pool& pool, PodIndex index) {
  const ClusterPod& pod = view_.pod(index);
  if (view_.summary(index).requests_more) return search_candidates(pool, pod);
  const PodClassId id = view_.class_of(index);
  if (id >= pool.by_class.size()) pool.by_class.resize(std::size_t{id} + 1);
  Candidates*& known = pool.by_class[id];
  if (known == nullptr) known = &search_candidates(pool, pod);
  return *known;
}

RoomFinder::Candidates& RoomFinder::search_candidates(Pool& pool, const ClusterPod& pod) {
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
  if (candidates.nodes.size() > kFew && candidates.nodes.size() < pool.size) {
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

void RoomFinder::remember(PodIndex pod, const Rooms& rooms, const Search& search, const Pool& pool,
                          Candidates& candidates) const {
  std::vector<NodeIndex> with_room;
  const bool few = pool.by_use.each([&](NodeIndex node) {
    if (candidates.has(node) && (search.may_have_room(node) || search.is_own(node))) {
      with_room.push_back(node);
    }
    return with_room.size() <= kFew;
  });
  if (!few) return;
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

std::optional<NodeIndex> RoomFinder::find(PodIndex pod, const Rooms& rooms) {
  follow();
  const auto found = find_among(rooms.nodes, pod, rooms);
  if (found || rooms.further_nodes.empty()) return found;
  return find_among(rooms.further_nodes, pod, rooms);
}

std::optional<NodeIndex> RoomFinder::find_among(std::span<const NodeIndex> list, PodIndex index,
                                                const Rooms& rooms) {
  Pool& pool = pool_of(list, rooms.outlives_plugin);
  Candidates& candidates = candidates_of(pool, index);
  const OwnerId owner = view_.owner_of(index);
  Search search(view_, index, rooms, owner == kNoOwner ? nullptr : &siblings_[owner]);
  const RuleFit rules(view_, index);
  const auto left = memory_ == nullptr ? std::span<const NodeIndex>() : memory_->left_by(index);
  const auto compare = [&](NodeIndex node) {
    if (!rules.fits(node) || search.is_own(node) || !search.may_have_room(node)) return;
    if (std::ranges::find(left, node) == left.end()) search.compare(node);
  };
  if (candidates.nodes.size() <= kFew) {
    std::ranges::for_each(candidates.nodes, compare);
    return search.best();
  }
  if (const auto* const nodes = known_rooms(index, rooms, candidates)) {
    std::ranges::for_each(*nodes, compare);
    return search.best();
  }
  const bool searched = pool.by_use.each([&](NodeIndex node) {
    if (candidates.has(node)) compare(node);
    return search.compared() < kCompared;
  });
  if (searched) remember(index, rooms, search, pool, candidates);
  return search.best();
}

}  // namespace forestall::rebalance
