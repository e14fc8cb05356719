// SPDX-License-Identifier: Apache-2.0
// The informers of all kinds that a plan reads.
//
// Each kind is as current as its own watch, as everywhere in Kubernetes: all evictions name UIDs,
// so kinds of slightly different times do no harm.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/eviction_request.h"
#include "cluster/informer.h"
#include "kubernetes/http_client.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// `claims`, `volumes`: with PersistentVolumeClaims, with PersistentVolumes.
[[nodiscard]] std::vector<WatchedKind> watched_kinds(bool claims, bool volumes);

// Thread rule: the client's thread.
class ClusterInformers {
 public:
  using Texts = std::vector<std::shared_ptr<rebalance::StringPool>>;

  // `client` and `clock` outlive this. `chances` makes a `chance` for each kind. REQUIRES: `kinds`
  // has Pod.
  ClusterInformers(const std::vector<WatchedKind>& kinds, kubernetes::HttpClient& client,
                   const Clock& clock, const std::function<std::function<double()>()>& chances);

  // Before and after HttpClient::advance().
  void advance();
  [[nodiscard]] std::optional<MonotonicTime> due() const;

  // Whether the objects of all kinds are current.
  [[nodiscard]] bool current() const;
  // Whether the server refuses to list some kind.
  [[nodiscard]] bool refused() const;
  // Of a kind that is not current, or else refused; empty: there is none.
  [[nodiscard]] std::string problem() const;
  // What the server has confirmed for every kind is not older. REQUIRES: current().
  [[nodiscard]] MonotonicTime confirmed() const;
  // Whether the pods are of a time after the eviction of this one: it terminates, it is gone, or
  // they were listed after `ended`, when the eviction did. A line of the watch is no proof, because
  // the server may have sent it before.
  [[nodiscard]] bool shows_eviction(const PodTarget& pod, MonotonicTime ended) const;
  // Of pods.
  [[nodiscard]] Informer& pods() { return *pods_; }
  [[nodiscard]] const Informer& pods() const { return *pods_; }
  // Adds all objects, not sorted. Their texts are in texts().
  void add_to(rebalance::Snapshot& snapshot) const;
  [[nodiscard]] Texts texts() const;
  [[nodiscard]] const std::vector<std::unique_ptr<Informer>>& all() const { return informers_; }

 private:
  std::vector<std::unique_ptr<Informer>> informers_;
  Informer* pods_ = nullptr;
};

}  // namespace forestall::cluster
