// SPDX-License-Identifier: Apache-2.0
// Carries a plan out: one eviction after the other, in the order of the plan. A state machine
// without I/O.
//
// Right before each request it checks whether this process may still evict. If not, or if the API
// server does not answer, or if the plan gets old, the rest of the plan is dropped: the next one is
// made of the state that the cluster has then. After an error the pod is read. If the server
// answers that, the error costs this pod only: a webhook of a tenant may fail for any number of
// pods, and must not keep the others where they are. Errors in many namespaces end the plan.
//
// If rooms are reserved, an eviction is sent only when its room is held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/eviction_request.h"
#include "cluster/placeholder_pods.h"
#include "cluster/request_source.h"
#include "kubernetes/backoff.h"

namespace forestall::cluster {

struct PlannedEviction {
  PodTarget pod;
  std::string node;
  std::string profile;
  std::string plugin;
  std::string reason;
  std::string destination = {};  // where room is booked for the replacement; empty: nowhere
  bool background = false;       // a webhook may move the pod instead
};

enum class PlannedEnd : std::uint8_t {
  evicted,
  background,         // a webhook moves the pod: see background_evictions.h
  gone,               // there is no such pod any more, or a later one has its name
  refused_by_budget,  // by a PodDisruptionBudget
  refused,            // the server forbids it or cannot process it
  no_room,            // its room could not be reserved, so the eviction was not sent
  failed,             // an error of the server
  unknown,            // evicted or not: an answer was lost, and the pod could not be read
  abandoned,          // the plan ended before
};
// "evicted", "refused-by-budget", ...
[[nodiscard]] std::string_view to_string(PlannedEnd end);
// Whether the pod leaves its node, or may.
[[nodiscard]] bool may_be_evicted(PlannedEnd end);

class PlanEvictions final : public RequestSource {
 public:
  // A plan that is older is dropped.
  static constexpr Duration kPlanAgeMax = std::chrono::minutes(5);
  // Of an answer to next(): that of an eviction, or of a pod that is read.
  static constexpr std::size_t kAnswerBytesMax = std::size_t{4} << 20;
  // Requests of one kind for one pod, while the server does not answer.
  static constexpr int kAttemptsMax = 4;
  // Evictions of one pod without an answer, or that the server did not begin, while it answers
  // otherwise.
  static constexpr int kLostMax = 2;
  // Namespaces in which evictions fail in a row, until the rest of the plan is dropped.
  static constexpr std::size_t kFailingNamespacesMax = 5;
  // Pods in a row whose rooms cannot be reserved, until the rest of the plan is dropped.
  static constexpr int kRoomlessMax = 10;
  // Between two pods, because of errors for pods: they must not use up the time of the plan.
  static constexpr Duration kFailureDelayMax = std::chrono::seconds(2);

  struct Options {
    std::optional<std::int64_t> grace;                   // seconds; nothing: that of the pod
    Duration answer_longest = std::chrono::seconds(10);  // of one request
    bool background = false;                             // webhooks may move pods
    bool gone_is_planned = false;  // the rest of the plan counts a pod that is gone as evicted
  };
  struct Ended {
    PlannedEviction eviction;
    PlannedEnd end = PlannedEnd::evicted;
    std::string problem;    // empty: none
    bool is_of_pod = true;  // false: the server had no answer about the pod either
  };

  using Reserve = std::function<ReservedRoom(const PlannedEviction& eviction, MonotonicTime now)>;

  // `may_evict` is called right before each request, and before it `reserve`, until the room is
  // held or refused; empty: no rooms are reserved. `chance` returns numbers in [0, 1).
  PlanEvictions(Options options, std::function<bool()> may_evict, std::function<double()> chance,
                Reserve reserve = {})
      : options_(options),
        may_evict_(std::move(may_evict)),
        chance_(std::move(chance)),
        reserve_(std::move(reserve)) {}

  // `made`: when the state of the cluster was read. `holds`: after a pod that was not evicted
  // nothing is sent until resume(), because the rest of the plan depends on it. REQUIRES: done().
  void begin(std::vector<PlannedEviction> plan, MonotonicTime made, bool holds);
  // The same plan goes on with these. REQUIRES: held().
  void resume(std::vector<PlannedEviction> plan, bool holds);
  // Drops what was not sent yet.
  void abandon(std::string_view why);
  // Why evictions of this plan were dropped; empty: they were not.
  [[nodiscard]] const std::string& dropped_why() const { return dropped_why_; }
  [[nodiscard]] bool done() const { return waiting_.empty() && !held_; }
  // Whether it waits for resume().
  [[nodiscard]] bool held() const { return held_; }

  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;
  // Evictions that ended since the last call.
  [[nodiscard]] std::vector<Ended> take_ended();

 private:
  void end(PlannedEnd how, std::string problem);
  [[nodiscard]] bool reserves(MonotonicTime now);
  void refused(const kubernetes::ApiStatus& status, const kubernetes::ResponseHead& head,
               MonotonicTime now);
  void verified(const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now);
  void lost(std::string problem, bool may_go_on, Duration wanted, MonotonicTime now);
  void overloaded(std::string problem, Duration wanted, MonotonicTime now);
  void failed_without_answer(std::string problem);
  void failed(const std::string& problem, Duration wanted, MonotonicTime now);
  void try_again(std::string problem, Duration wanted, MonotonicTime now);

  const Options options_;
  const std::function<bool()> may_evict_;
  const std::function<double()> chance_;
  const Reserve reserve_;
  std::deque<PlannedEviction> waiting_;
  MonotonicTime made_{};
  bool holds_ = false;
  bool held_ = false;
  // Of the first one.
  bool sent_ = false;
  bool reserving_ = false;  // waits for its room, not for a time
  bool verifies_ = false;   // the next request reads the pod
  int reads_ = 0;
  // Of its eviction, if it is not known what the server did.
  std::string problem_;
  bool may_go_on_ = false;    // the server may still do it
  bool not_begun_ = false;    // another request may have success
  Duration wanted_{};         // that it requested to wait
  bool lost_answer_ = false;  // the server may have done what an earlier request requested
  int attempts_ = 0;
  bool versions_tried_ = false;
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;

  // Of pods in a row.
  kubernetes::Backoff failure_backoff_;
  std::set<std::string> failing_;  // namespaces
  int roomless_ = 0;
  bool old_version_ = false;
  std::string dropped_why_;  // empty: the plan goes on
  std::vector<Ended> ended_;
};

}  // namespace forestall::cluster
