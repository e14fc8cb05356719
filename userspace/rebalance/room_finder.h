// SPDX-License-Identifier: Apache-2.0
// Where the replacement of an evicted pod would go.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/eligible_nodes.h"
#include "rebalance/move_memory.h"
#include "rebalance/nodes_by_use.h"

namespace forestall::rebalance {

struct Rooms {
  // REQUIRES: the same list, at the same address, as long as the plugin runs.
  std::span<const NodeIndex> nodes;
  std::span<const NodeIndex> further_nodes = {};  // if none of `nodes` has room; as `nodes`
  bool outlives_plugin = false;                   // the lists
  // What a node needs besides a fit; none: nothing. A node that does not accept `usage` accepts
  // no larger one later.
  std::function<bool(NodeIndex)> accepts = {};
  const Amounts* usage = nullptr;
  bool measured = false;  // the usage; else the pod requests it
  bool required = false;  // whether or not room-first is corrected
};

// Searches few nodes for each pod, however many there are: nodes stand in the order of their use,
// those that a pod's rules refuse are left out, and what a search through all of them found is
// kept.
class RoomFinder {
 public:
  // Both must outlive this object. Without a memory pods may go back to a node that they left.
  explicit RoomFinder(const ClusterView& view, const MoveMemory* memory = nullptr)
      : view_(view), memory_(memory), pools_with_(view.snapshot().nodes.size()) {}

  // Of the 8 least used nodes that the pod fits, its own excluded: the one with the fewest pods of
  // its first owner, then the one whose fuller resource (cpu or memory, by requests) is the least
  // used with the pod, then the first. As the scheduler's default scores, in short. If it fits none
  // of them, the same among the further nodes. Nothing: it fits none.
  [[nodiscard]] std::optional<NodeIndex> find(PodIndex pod, const Rooms& rooms);
  // Forgets the lists of the last plugin, and which nodes it accepted.
  void start_plugin();

 private:
  // Nodes that the rules of some pods admit, and that have what they request.
  struct Candidates {
    std::vector<NodeIndex> nodes;
    std::vector<bool> contains;  // by node; empty: all of the pool
    // REQUIRES: a node of the pool, and more than a few candidates.
    [[nodiscard]] bool has(NodeIndex node) const { return contains.empty() || contains[node]; }
    // A search through all of them.
    struct Searched {
      Amounts request;
      Amounts usage;
      std::vector<NodeIndex> with_room;  // and the pod's own node; sorted
      std::size_t followed = 0;          // changes of the view at that time
      std::size_t added = 0;             // changes whose freed nodes are in with_room
    };
    std::vector<Searched> searched;
  };
  struct Pool {
    EligibleNodes eligible;
    std::size_t size = 0;
    bool outlives_plugin = false;
    // Empty if all nodes are tried one by one.
    NodesByUse by_use;
    std::vector<double> use;  // by node
    std::map<std::pair<const std::vector<NodeIndex>*, std::string>, Candidates> candidates;
    // Of pods without extended resources.
    std::vector<Candidates*> by_class;  // null: not searched
  };
  class Search;

  void follow();
  [[nodiscard]] double use_of(NodeIndex node) const;
  [[nodiscard]] std::optional<NodeIndex> find_among(std::span<const NodeIndex> list, PodIndex pod,
                                                    const Rooms& rooms);
  [[nodiscard]] Pool& pool_of(std::span<const NodeIndex> nodes, bool outlives_plugin);
  void order(Pool& pool, std::span<const NodeIndex> nodes) const;
  [[nodiscard]] Candidates& candidates_of(Pool& pool, PodIndex pod);
  [[nodiscard]] Candidates& search_candidates(Pool& pool, const ClusterPod& pod);
  // Null: not known.
  [[nodiscard]] const std::vector<NodeIndex>* known_rooms(PodIndex pod, const Rooms& rooms,
                                                          Candidates& candidates) const;
  // All nodes of the pool were searched for the pod.
  void remember(PodIndex pod, const Rooms& rooms, const Search& search, const Pool& pool,
                Candidates& candidates) const;
  void count_siblings();
  void count_sibling(PodIndex pod, NodeIndex node, int change);

  const ClusterView& view_;
  const MoveMemory* memory_;
  std::size_t followed_ = 0;  // changes of the view that are counted
  std::map<std::pair<const NodeIndex*, std::size_t>, Pool> pools_;
  std::vector<std::vector<Pool*>> pools_with_;  // by node
  std::vector<DomainCounts> siblings_;          // live pods, by first owner and node
  bool started_ = false;
};

}  // namespace forestall::rebalance
