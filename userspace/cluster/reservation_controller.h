// SPDX-License-Identifier: Apache-2.0
// Reserves the room of each move by a placeholder before its pod is evicted, and releases it when
// the replacement has a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/placeholder_pods.h"
#include "cluster/plan_evictions.h"
#include "cluster/request_sender.h"
#include "cluster/snapshot_lister.h"
#include "kubernetes/http_client.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// Removes the placeholders from the snapshot: a plan counts the rooms that it booked, and evicts no
// placeholder.
void drop_placeholders(rebalance::Snapshot& snapshot,
                       const rebalance::PlaceholderSettings& settings);

// The placeholder of a planned eviction. Errors: its replacement could not preempt it, or the pod
// is not in the snapshot.
[[nodiscard]] Result<WantedRoom> room_of(const PlannedEviction& eviction,
                                         const rebalance::PlaceholderSettings& settings,
                                         const rebalance::Snapshot& snapshot, std::string plan);

// Thread rule: one thread.
class ReservationController {
 public:
  // While replacements are awaited, how often their pods are listed.
  static constexpr Duration kPollInterval = std::chrono::seconds(5);
  static constexpr std::size_t kRequestsMax = 4;

  using Chance = std::function<double()>;

  // `client` and `clock` outlive this. `may_create` is called right before each creation.
  // `answer_longest`: of one request. `chance` returns numbers in [0, 1).
  ReservationController(rebalance::PlaceholderSettings settings, kubernetes::HttpClient& client,
                        const Clock& clock, std::function<bool()> may_create,
                        Duration answer_longest, const Chance& chance);

  // Before a plan of this snapshot: removes leftovers from the cluster, and all placeholders from
  // the snapshot. Errors: placeholders cannot be created.
  [[nodiscard]] Result<void> begin_plan(rebalance::Snapshot& snapshot);
  // Creates the placeholder at the first call. An eviction without a destination needs none.
  [[nodiscard]] ReservedRoom reserve(const PlannedEviction& eviction,
                                     const rebalance::Snapshot& snapshot);
  void ended(const PlanEvictions::Ended& ended);
  void release_all(std::string_view why) { placeholders_.release_all(why, clock_.now()); }

  void advance();
  [[nodiscard]] std::optional<MonotonicTime> due() const;
  // Whether there is no placeholder.
  [[nodiscard]] bool done() const { return placeholders_.done(); }
  [[nodiscard]] std::size_t held() const { return placeholders_.held(); }
  [[nodiscard]] std::vector<PlaceholderPods::Changed> take_changes() {
    return placeholders_.take_changes();
  }
  // Why the last list of replacements failed; empty: it did not.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void poll();

  const rebalance::PlaceholderSettings settings_;
  const Clock& clock_;
  const std::string run_;  // of this process, part of the plan's label
  std::uint64_t plans_ = 0;
  PlaceholderPods placeholders_;
  SnapshotLister lister_;
  RequestSender sender_;
  RequestSender list_sender_;
  bool polls_ = false;
  MonotonicTime next_poll_{};
  std::string problem_;
};

}  // namespace forestall::cluster
