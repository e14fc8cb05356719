// SPDX-License-Identifier: Apache-2.0
// The plan of one cycle, made again when the API server refused an eviction: for the same state of
// the cluster, with the refused pods.
//
// A plan is sequential. What it decided before a refused eviction stays, and the rest is what the
// descheduler would do: it counts successes only and tries the next pod.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/plan_evictions.h"
#include "cluster/refused_pods.h"
#include "rebalance/plan.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"
#include "rebalance/waiting_moves.h"

namespace forestall::cluster {

class CyclePlan {
 public:
  // So many plans after the first one, and so long: each may take seconds of CPU in a large
  // cluster, and a tenant decides how many of its pods the API server refuses.
  static constexpr int kAgainMax = 100;
  static constexpr Duration kAgainLongest = std::chrono::seconds(30);

  using Texts = std::vector<std::shared_ptr<rebalance::StringPool>>;

  // `texts`: that the snapshot uses besides its own. `history`: of the plans of earlier cycles.
  CyclePlan(rebalance::Policy policy, rebalance::Snapshot snapshot, Texts texts,
            rebalance::PlanHistory history)
      : policy_(std::move(policy)),
        texts_(std::move(texts)),
        snapshot_(std::move(snapshot)),
        history_(std::move(history)) {}

  struct Made {
    rebalance::RebalancePlan plan;
    std::vector<PlannedEviction> evictions;  // to carry out; each pod once
    // That the plan itself refused, with the reasons.
    std::vector<std::pair<PlannedEviction, std::string>> refused;
  };
  // Evictions that a limit of the policy stopped, of one plugin in one namespace of one node.
  struct Limited {
    PlannedEviction first;
    std::string limit;  // its message
    std::uint64_t count = 0;
  };
  // Without evictions that ended() was called for.
  [[nodiscard]] Made make(RefusedPods& refused, MonotonicTime now);
  [[nodiscard]] const rebalance::Snapshot& snapshot() const { return snapshot_; }
  // Of the last make().
  [[nodiscard]] std::vector<Limited> limited() const;
  // Whether make() may be called once more.
  [[nodiscard]] bool may_make_again() const { return made_ <= kAgainMax && took_ < kAgainLongest; }
  // How long the last make() took.
  void took(Duration duration) { took_ += duration; }
  // An eviction of this cycle ended in any way. `refusal`: why the pod was not evicted; empty: it
  // was, or may have been.
  void ended(const std::string& uid, const std::string& refusal);
  // The server had the pod no more when its eviction was requested: the state is older than the
  // pod's end. With corrections its eviction counts as done, because it has left its node, and the
  // plan need not be made again. To the descheduler it was refused, so another pod would follow in
  // its place. It is no move of this process, so the history does not get it.
  void gone(const std::string& uid, const std::string& problem);
  // The same eviction, for waits_after().
  void requested(const PlannedEviction& eviction, PlannedEnd end);
  // The waits for the next cycle. `planned`: what the last make() has for it. A plan made again
  // does not see what this restores: what it decided before the refusal must stay.
  [[nodiscard]] std::vector<rebalance::WaitingMove> waits_after(
      std::vector<rebalance::WaitingMove> planned) const;

 private:
  const rebalance::Policy policy_;
  const Texts texts_;
  rebalance::Snapshot snapshot_;
  const rebalance::PlanHistory history_;
  struct LimitedOf {
    std::string profile;
    std::string plugin;
    std::vector<rebalance::LimitedPod> pods;
  };
  std::vector<LimitedOf> limited_;
  void forget_gone(rebalance::MoveHistory& moves) const;
  [[nodiscard]] bool remembers_waits() const;

  std::set<std::string, std::less<>> ended_;  // UIDs
  // Namespace and name.
  std::set<std::pair<std::string_view, std::string_view>> gone_;
  std::vector<rebalance::RequestedMove> requested_;
  int made_ = 0;
  Duration took_{};
};

}  // namespace forestall::cluster
