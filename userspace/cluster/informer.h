// SPDX-License-Identifier: Apache-2.0
// The objects of one kind in a cluster, kept current by a list and watches.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cluster/object_store.h"
#include "cluster/plan_evictions.h"
#include "kubernetes/backoff.h"
#include "kubernetes/http_client.h"
#include "kubernetes/list_watch.h"
#include "kubernetes/object_watch.h"

namespace forestall::cluster {

struct WatchedKind {
  std::string kind;  // such as "Pod"
  std::string path;
  std::string old_path = {};  // of servers without `path`; empty: none
  std::size_t bytes_max = std::size_t{64} << 20;
  kubernetes::ListLimits limits = {};
};

// Thread rule: the client's thread.
class Informer {
 public:
  // Without a confirmation for longer, the objects are not current. A quiet watch has one about
  // each minute, and a dead connection is detected after kubernetes::ListWatch::kWatchSilence.
  static constexpr Duration kCurrentLongest = std::chrono::minutes(3);
  // Without a watch only the next list confirms the objects. Those of a list are current for twice
  // the time that it took and the delay between two lists, so that the slow lists of two kinds are
  // current at the same time. PlanEvictions drops a plan of older objects in any case.
  static constexpr Duration kListDelayLongest = kubernetes::Backoff::kLongest;
  static constexpr Duration kListCurrentLongest = PlanEvictions::kPlanAgeMax;

  // `client` and `clock` outlive this. `chance` returns numbers in [0, 1).
  Informer(WatchedKind kind, kubernetes::HttpClient& client, const Clock& clock,
           std::function<double()> chance);

  // Before and after HttpClient::advance().
  void advance();
  [[nodiscard]] MonotonicTime due() const { return watch_.due(); }

  [[nodiscard]] bool current() const;
  // When the server last confirmed the objects; nothing: no list was complete.
  [[nodiscard]] std::optional<MonotonicTime> confirmed() const;
  // Whether the objects are of a list that the server began then or later, with its changes.
  [[nodiscard]] bool listed_since(MonotonicTime time) const;
  // Lists at once, unless a list began then or later.
  void list_since(MonotonicTime time);
  // Whether no list was complete because the server refused it, for a reason that stays.
  [[nodiscard]] bool refused() const;
  // Why the objects may not be current, with the request that failed; empty: no request did.
  [[nodiscard]] std::string problem() const;
  // "pods".
  [[nodiscard]] std::string_view resource() const;
  [[nodiscard]] const ObjectStore& store() const { return store_; }
  [[nodiscard]] const kubernetes::ListWatchState& state() const { return list_watch_.state(); }

 private:
  void follow_failures();

  const WatchedKind kind_;
  const Clock& clock_;
  ObjectStore store_;
  kubernetes::ListWatch list_watch_;
  kubernetes::ObjectWatch watch_;
  bool old_ = false;          // the path
  std::uint64_t failed_ = 0;  // requests, when their state was last read
  // Whether the server answered 404.
  bool lacks_path_ = false;
  bool lacks_old_path_ = false;
};

}  // namespace forestall::cluster
