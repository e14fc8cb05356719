// SPDX-License-Identifier: Apache-2.0
// Moves that a limit refuses plan after plan. Input and output of a plan, as the moves are.
//
// The same plugins request the same evictions in the same order in each plan. If the first ones use
// up a limit each time, the others never get a seat of it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {

// In the order in which they are checked.
enum class EvictionLimit : std::uint8_t { total, node, pod_namespace, budget };

// "total", "node", "namespace", "budget".
[[nodiscard]] std::string_view to_string(EvictionLimit each);
[[nodiscard]] std::optional<EvictionLimit> parse_eviction_limit(std::string_view word);

// After this time a seat is held for the move.
inline constexpr std::int64_t kWaitingSeconds = 1800;
// So many are remembered, the oldest ones of each namespace: a tenant can create any number of
// workloads.
inline constexpr std::size_t kWaitingOfNamespaceMax = 1000;
inline constexpr std::size_t kWaitingMax = 10'000;

// All evictions of one workload that one plugin requests.
struct WaitingMove {
  std::string profile;
  std::string plugin;
  std::string workload;  // UID of the pods' first owner; of the pod, if it has none
  std::string pod_namespace;
  std::string pod;   // that the last plan refused first
  std::string node;  // if its limit refused the pods there; else empty: they are on any node
  EvictionLimit limit = EvictionLimit::total;
  std::int64_t since_ns = 0;  // CLOCK_REALTIME

  friend bool operator==(const WaitingMove&, const WaitingMove&) = default;
};

// The plugin of a profile that requests an eviction.
struct Requester {
  std::string_view profile;
  std::string_view plugin;

  friend auto operator<=>(const Requester&, const Requester&) = default;
};

// The UID by which a waiting move names the workload.
[[nodiscard]] std::string_view workload_of(const ClusterPod& pod);

class WaitingMoves {
 public:
  // Of the last plan. `view` must outlive this object.
  WaitingMoves(std::vector<WaitingMove> before, const ClusterView& view);

  // Those of `before` that have waited for kWaitingSeconds, the namespaces in turn: the oldest one
  // of each, then the second oldest of each, and so on; each time the oldest first, then by
  // namespace and name. Valid as long as this object.
  [[nodiscard]] std::vector<const WaitingMove*> due() const;

  // By this plan. The texts of the requester must outlive this object.
  void refused(const Requester& by, PodIndex pod, EvictionLimit limit);
  // The other evictions of that move, if a limit refuses them, wait since now.
  void evicted(const Requester& by, PodIndex pod);
  // The plugin was not run, so all its moves of the last plan still wait.
  void keep(const Requester& by);
  // The API server refused the pod lately, in an earlier plan: a wait of its move continues.
  void keep(const Requester& by, PodIndex pod);
  // The plugin failed. Its moves of the last plan wait since now: a plugin that fails in each plan
  // must not hold a seat in each.
  void failed(const Requester& by);

  // For the next plan.
  [[nodiscard]] std::vector<WaitingMove> take() &&;

 private:
  // The last one is the node, if its limit refused; else empty.
  using Key = std::tuple<Requester, std::string_view, std::string_view, std::string_view>;
  struct Refused {
    PodIndex pod = 0;
    EvictionLimit limit = EvictionLimit::total;
  };

  [[nodiscard]] Key key_of(const Requester& by, PodIndex pod, std::string_view node) const;
  // When the wait began.
  [[nodiscard]] std::int64_t since(const Key& key, const Refused& refused) const;

  const ClusterView& view_;
  std::vector<WaitingMove> before_;
  std::map<Key, std::int64_t> since_;  // of `before_`
  std::map<Key, Refused> refused_;     // the first one
  std::set<Key> evicted_;
  std::set<Requester> kept_;
  std::set<Key> kept_moves_;
  std::set<Requester> failed_;
};

// How an eviction of a plan ended in a cluster.
enum class RequestEnd : std::uint8_t {
  evicted,            // or may have been
  refused_by_budget,  // the disruption that the plan counted on was used up meanwhile
  not_evicted,        // for any other reason
};

struct RequestedMove {
  // As it would wait: `node` is that of the pod, `since_ns` the time of the plan.
  WaitingMove move;
  RequestEnd end = RequestEnd::evicted;
};

// The waits for the next plan, after all evictions of this one ended. A plan removes the wait of
// what it evicts. If the pod was not evicted after all, its move waits again since the time
// `before` this plan, but at most kWaitingSeconds long: it remains due, and moves that wait longer
// get their seat first. `planned`: what the plan itself has for the next one.
[[nodiscard]] std::vector<WaitingMove> waits_after(std::vector<WaitingMove> planned,
                                                   const std::vector<WaitingMove>& before,
                                                   const std::vector<RequestedMove>& requested);

}  // namespace forestall::rebalance
