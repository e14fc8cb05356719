// SPDX-License-Identifier: Apache-2.0
// The limits of a plan's evictions, and what disruption budgets allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rebalance/cluster_view.h"
#include "rebalance/policy.h"
#include "rebalance/waiting_moves.h"

namespace forestall::rebalance {

// What became of one eviction.
enum class EvictResult : std::uint8_t {
  evicted,
  // By the API server or the pacing, or because the pod has no UID or no other node has room.
  refused,
  total_limit,
  node_limit,
  namespace_limit,
};

// Counts of evictions and what disruption budgets still allow, over all plugins of a plan.
//
// A seat is one eviction that a limit still allows. One that is held for a waiting move counts as
// taken for all others. The seats are held before the first eviction and released in the order of
// the plan, so that what was decided before a refused eviction stays if the plan is made again.
class EvictionCounts {
 public:
  // `waiting`: null: no move waits for a seat. All must outlive this object.
  EvictionCounts(const Policy& policy, const ClusterView& view, WaitingMoves* waiting);

  [[nodiscard]] bool holds_seats() const { return waiting_ != nullptr; }
  // Whether each limit has a seat for a pod of the waiting move, and none of the limit that refused
  // the move is held already.
  [[nodiscard]] bool can_hold(const WaitingMove& move, PodIndex pod) const;
  // Holds a seat of each limit. REQUIRES: can_hold().
  void hold(const WaitingMove& move, PodIndex pod);
  // The pod will not be evicted now, for a reason that is no limit: its seat is free.
  void release(const Requester& by, PodIndex pod);
  // The plugin has ended: the seats for its moves are free.
  void release_all(const Requester& by);

  // Checks the limits (total, node, namespace), then requests the eviction as the API server would
  // answer it. Sets `refusal` to the message of a refused one. Only successes count.
  [[nodiscard]] EvictResult evict(const Requester& by, PodIndex pod, std::string& refusal);

  // Whether a limit would refuse it.
  [[nodiscard]] bool reaches_limit(const Requester& by, PodIndex pod);
  // Whether evict() would succeed after the pods that were tried before, which count in the limits
  // until end_trial(). Of a disruption budget they use nothing: what it allows may be used in
  // several plans. A pod that a limit or a budget refuses waits for it.
  [[nodiscard]] EvictResult try_evict(const Requester& by, PodIndex pod, std::string& refusal);
  void end_trial();

 private:
  using CountsByName = std::unordered_map<std::string_view, std::uint64_t>;
  // What is evicted, or held.
  struct Seats {
    std::uint64_t total = 0;
    CountsByName by_node;
    CountsByName by_namespace;
  };
  struct Held {
    PodIndex pod = 0;
    std::string_view node;  // of the waiting move; empty: any
    std::vector<std::size_t> budgets;
  };
  // With the namespace and the workload.
  using HeldKey = std::tuple<Requester, std::string_view, std::string_view>;
  using HeldSeats = std::multimap<HeldKey, Held>;
  // With the name of the node or namespace, or the number of the budget.
  using LimitKey = std::tuple<EvictionLimit, std::string_view, std::size_t>;

  void count(Seats& seats, PodIndex pod, int change) const;
  void count_held(const Held& held, int change);
  // Of the limit that refused the move.
  [[nodiscard]] LimitKey limit_of(const WaitingMove& move, PodIndex pod,
                                  const std::vector<std::size_t>& budgets) const;
  // Why it is refused, before limits and budgets are checked; empty: it is not.
  [[nodiscard]] static std::string missing_uid(const ClusterPod& pod);
  [[nodiscard]] static std::string budgets_refusal(const ClusterPod& pod, std::size_t budgets);
  // `own`: the seat that is held for the pod's move; null: none.
  [[nodiscard]] std::optional<EvictionLimit> reached_limit(PodIndex pod, const Held* own) const;
  [[nodiscard]] std::vector<std::size_t> budgets_of(PodIndex pod) const;
  [[nodiscard]] std::string budget_refusal(const ClusterPod& pod,
                                           const std::vector<std::size_t>& budgets,
                                           const Held* own) const;
  [[nodiscard]] std::string api_refusal(PodIndex pod, const std::vector<std::size_t>& budgets);
  [[nodiscard]] HeldSeats::iterator find(const Requester& by, PodIndex pod);
  HeldSeats::iterator release(HeldSeats::iterator held);

  const Policy& policy_;
  const ClusterView& view_;
  WaitingMoves* const waiting_;
  Seats evictions_;
  Seats held_seats_;
  HeldSeats held_;
  std::vector<PodIndex> tried_;
  std::vector<HeldSeats::node_type> tried_seats_;  // held for the tried pods
  std::set<LimitKey> held_limits_;
  std::vector<bool> evicted_;          // by pod
  std::vector<std::int32_t> allowed_;  // disruptions, by budget
  std::vector<std::int32_t> kept_;     // of those, for waiting moves
};

}  // namespace forestall::rebalance
