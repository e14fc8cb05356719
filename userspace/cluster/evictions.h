// SPDX-License-Identifier: Apache-2.0
// Deletes pods whose processes the agent has killed, so that the kubelet does not start their
// containers again. A state machine without I/O, as kubernetes/list_watch.h.
//
// Each request names the UID that was killed: the server refuses it for a later pod of the same
// name. The kill never waits for any of this.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/request_source.h"
#include "kubernetes/api_status.h"
#include "kubernetes/backoff.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

// What happens if a PodDisruptionBudget refuses an eviction. The processes are dead in any case.
enum class DisruptionBudgets : std::uint8_t {
  ignore,   // the pod is deleted, as the kubelet evicts under pressure
  respect,  // the kubelet starts the pod's containers again
};

struct KilledPod {
  std::string uid;
  std::string pod_namespace;
  std::string name;
  std::string kill = {};  // identifies the kill: the same in all of its records; empty: unknown
  // When the agent decided it, on this host's clock; nothing: unknown.
  std::optional<MonotonicTime> at = std::nullopt;
  std::string message = {};  // kubelet's words for the eviction
  std::vector<std::pair<std::string, std::string>> annotations = {};  // of its Event
  bool repeats = false;  // of a container that was started again after an earlier kill
};

enum class EvictionEnd : std::uint8_t {
  evicted,            // the server accepted it
  gone,               // there is no such pod any more
  another_pod,        // a later pod has the name
  refused_by_budget,  // with DisruptionBudgets::respect
  refused,            // the server forbids it (403) or cannot process it (422)
  expired,            // the pod's containers run again by now
  dropped,            // too many evictions wait
};
// "evicted", "refused-by-budget", ...
[[nodiscard]] std::string_view to_string(EvictionEnd end);

class Evictions final : public RequestSource {
 public:
  static constexpr std::size_t kMax = 256;
  // Requests at the same time.
  static constexpr std::size_t kRequestsMax = 8;
  static constexpr Duration kAnswerTimeout = std::chrono::seconds(10);
  // After a kill. The kubelet has started the containers again, and may have waited for this long
  // with its back-off; an eviction later than that would end healthy processes.
  static constexpr Duration kExpiresAfter = std::chrono::minutes(1);

  struct Ended {
    KilledPod pod;
    EvictionEnd end = EvictionEnd::evicted;
  };

  // `chance` returns numbers in [0, 1).
  Evictions(DisruptionBudgets budgets, std::function<double()> chance)
      : budgets_(budgets), chance_(std::move(chance)) {}

  // A kill of this pod began, or ended. Returns whether its eviction waits from now on. It does not
  // if it waits already, if the server has accepted one of the same UID or reported that pod as
  // deleted, if the server has refused one for the same kill, or if the kill is older than
  // kExpiresAfter.
  bool add(const KilledPod& pod, MonotonicTime now);
  // The API server has reported the pod as deleted or terminating.
  void gone(std::string_view uid);
  // Of the server, by its version. If it refuses that, the other version is used all the same.
  void set_v1(bool has_v1) { old_version_ = !has_v1; }
  // Keys of requests are UIDs.
  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view uid, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  // When next() has one or an eviction expires; nothing: none waits.
  [[nodiscard]] std::optional<MonotonicTime> due() const override;
  // Evictions that ended since the last call.
  [[nodiscard]] std::vector<Ended> take_ended();
  // Why the last request had no success; empty: it had.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Waiting {
    KilledPod pod;
    MonotonicTime expires{};
    MonotonicTime not_before{};
    kubernetes::Backoff backoff;
    bool sent = false;                 // a request is under way
    bool deletes = false;              // DELETE in place of the eviction
    bool old_version = false;          // of the request under way
    bool credentials_refused = false;  // since the last answer of another kind
  };

  [[nodiscard]] kubernetes::OutgoingRequest request_for(const Waiting& waiting) const;
  [[nodiscard]] std::deque<Waiting>::iterator find(std::string_view uid);
  void refused(Waiting& waiting, const kubernetes::ApiStatus& status,
               const kubernetes::ResponseHead& head, MonotonicTime now);
  void refused_by_budget(Waiting& waiting, MonotonicTime now);
  void end(std::string_view uid, EvictionEnd how);
  void end_expired(MonotonicTime now);
  [[nodiscard]] bool is_answered(const KilledPod& pod) const;

  const DisruptionBudgets budgets_;
  const std::function<double()> chance_;
  std::deque<Waiting> waiting_;
  std::vector<Ended> ended_;
  std::deque<Ended> answered_;  // by the server, the last kMax
  bool old_version_ = false;    // policy/v1beta1, of servers before 1.22
  std::string problem_;
};

}  // namespace forestall::cluster
