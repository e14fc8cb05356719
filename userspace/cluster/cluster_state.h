// SPDX-License-Identifier: Apache-2.0
// What a plan is made of: the state of the cluster at one time. Without an interval between plans,
// every kind is listed once. Else the kinds that have a watch come from informers, and only metrics
// and NodeReports are listed for each plan, when the rest is current.
//
// No plan is made of a state that is not current: of a kind that is not Informer::current(), or
// with pods of a time before the last eviction, of this process or of the leader before it: a plan
// would not count its effects, and evict more. The lines of a late watch and of a current one do
// not differ, so proof is the end of each evicted pod, or a list that began later.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster_informers.h"
#include "cluster/eviction_request.h"
#include "cluster/request_sender.h"
#include "cluster/snapshot_lister.h"
#include "kubernetes/http_client.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// What a policy reads, besides what every policy does.
struct StateSources {
  bool claims = false;        // PersistentVolumeClaims
  bool volumes = false;       // PersistentVolumes
  bool node_metrics = false;  // of metrics.k8s.io; false also if PlanMetrics collects them
  bool pod_metrics = false;   // of metrics.k8s.io
  bool reports = false;       // NodeReports
};

[[nodiscard]] StateSources sources_of(const rebalance::Policy& policy);

// Thread rule: the client's thread.
class ClusterState {
 public:
  using Texts = ClusterInformers::Texts;

  struct Taken {
    rebalance::Snapshot snapshot;
    Texts texts;            // that the snapshot uses besides its own
    MonotonicTime as_of{};  // nothing in it is older
  };

  // `watch`: for several plans. `client` and `clock` outlive this. `chances` makes functions that
  // return numbers in [0, 1).
  ClusterState(const StateSources& sources, bool watch, kubernetes::HttpClient& client,
               const Clock& clock, const std::function<std::function<double()>()>& chances);

  // Before and after HttpClient::advance().
  void advance();
  [[nodiscard]] std::optional<MonotonicTime> due() const;

  // Evictions that a watch does not report are listed so much after the next plan begins.
  static constexpr Duration kSeenLongest = std::chrono::seconds(10);

  // Another process may have evicted pods until now. The next state is later.
  void fence();
  // This process evicted the pod, or may have, and the request is over. The next state is later.
  void evicted(const PodTarget& pod);

  // Begins to read for a plan.
  void begin();
  void cancel();
  // Whether what is listed for each plan is listed now, or was: nothing else has to be waited for.
  [[nodiscard]] bool polls() const { return polls_; }
  // Whether the state can be taken, or is not available.
  [[nodiscard]] bool done() const;
  // Why it is not available; empty: it is. REQUIRES: done().
  [[nodiscard]] std::string failure() const;
  // Why metrics or NodeReports are not in it; empty: they are, or are not needed.
  [[nodiscard]] const std::string& left_out() const { return lister_.left_out(); }
  // REQUIRES: done(), without failure(); called once after begin().
  [[nodiscard]] Taken take(std::int64_t wall_ns);

  // Null: all kinds are listed.
  [[nodiscard]] const ClusterInformers* informers() const {
    return informers_ ? &*informers_ : nullptr;
  }

 private:
  struct UnseenEviction {
    PodTarget pod;
    MonotonicTime ended{};
  };

  void forget_seen();
  void list_unseen();
  void list_polled();
  // Whether all kinds with a watch are current and show all evictions.
  [[nodiscard]] bool informers_ready() const;
  [[nodiscard]] bool waits_for_informers() const;

  const StateSources sources_;
  const Clock& clock_;
  std::optional<ClusterInformers> informers_;
  SnapshotLister lister_;
  RequestSender sender_;
  std::optional<MonotonicTime> begun_;  // nothing: nothing is read
  bool polls_ = false;                  // the lister has begun since
  std::optional<MonotonicTime> fence_;  // until pods were listed since
  std::vector<UnseenEviction> unseen_;  // by the informer of pods
};

}  // namespace forestall::cluster
