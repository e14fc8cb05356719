// SPDX-License-Identifier: Apache-2.0
#include "cluster/plan_evictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cluster/background_evictions.h"
#include "cluster/eviction_request.h"
#include "kubernetes/retry_after.h"

namespace forestall::cluster {
namespace {

constexpr int kNoAccess = 401;

// Whether the server may have done, or may still do, what was requested: it waited for another
// process, such as etcd.
bool may_go_on(const kubernetes::ApiStatus& status) {
  constexpr int kTimeout = 504;
  return status.code == kTimeout ||
         (status.code >= 500 && status.message.find("request timed out") != std::string::npos);
}

// How long the server requests to wait.
Duration wanted_by(const kubernetes::ApiStatus& status, const kubernetes::ResponseHead& head) {
  const auto wanted = status.retry_after
                          ? status.retry_after
                          : kubernetes::parse_retry_after(head.retry_after, head.date);
  return wanted.value_or(Duration::zero());
}

}  // namespace

std::string_view to_string(PlannedEnd end) {
  switch (end) {
    case PlannedEnd::evicted: return "evicted";
    case PlannedEnd::background: return "background";
    case PlannedEnd::gone: return "gone";
    case PlannedEnd::refused_by_budget: return "refused-by-budget";
    case PlannedEnd::refused: return "refused";
    case PlannedEnd::no_room: return "no-room";
    case PlannedEnd::failed: return "failed";
    case PlannedEnd::unknown: return "unknown";
    case PlannedEnd::abandoned: return "abandoned";
  }
  return "";
}

bool may_be_evicted(PlannedEnd end) {
  return end == PlannedEnd::evicted || end == PlannedEnd::background || end == PlannedEnd::unknown;
}

void PlanEvictions::begin(std::vector<PlannedEviction> plan, MonotonicTime made, bool holds) {
  resume(std::move(plan), holds);
  made_ = made;
  not_before_ = made;
  failure_backoff_.reset();
  failing_.clear();
  roomless_ = 0;
  dropped_why_.clear();
}

void PlanEvictions::resume(std::vector<PlannedEviction> plan, bool holds) {
  waiting_.assign(std::make_move_iterator(plan.begin()), std::make_move_iterator(plan.end()));
  holds_ = holds;
  held_ = false;
}

void PlanEvictions::abandon(std::string_view why) {
  dropped_why_ = why;
  held_ = false;
  while (waiting_.size() > 1) {
    ended_.push_back({std::move(waiting_.back()), PlannedEnd::abandoned, dropped_why_});
    waiting_.pop_back();
  }
  // Of a request that was sent the answer follows, or what became of the pod.
  if (waiting_.empty() || sent_ || (verifies_ && lost_answer_)) return;
  if (!verifies_) return end(PlannedEnd::abandoned, dropped_why_);
  end(PlannedEnd::failed, problem_);
  ended_.back().is_of_pod = false;
}

std::optional<KeyedRequest> PlanEvictions::next(MonotonicTime now) {
  if (waiting_.empty() || sent_ || held_ || now < not_before_) return std::nullopt;
  // What was read decides nothing about other pods, so this process need not lead.
  if (verifies_) {
    kubernetes::OutgoingRequest request = pod_request(waiting_.front().pod);
    request.longest = options_.answer_longest;
    sent_ = true;
    ++reads_;
    return KeyedRequest{waiting_.front().pod.uid, std::move(request)};
  }
  if (!may_evict_()) {
    abandon("another process may lead");
    return std::nullopt;
  }
  if (now - made_ >= kPlanAgeMax) {
    abandon("the state that the plan was made for is too old");
    return std::nullopt;
  }
  if (!reserves(now)) return std::nullopt;
  const PlannedEviction& first = waiting_.front();
  kubernetes::OutgoingRequest request = eviction_request(
      first.pod, old_version_, options_.grace,
      fmt::format("triggered by {}/{}: {}", first.profile, first.plugin, first.reason));
  request.longest = options_.answer_longest;
  sent_ = true;
  ++attempts_;
  return KeyedRequest{first.pod.uid, std::move(request)};
}

// Whether the room of the first one is held.
bool PlanEvictions::reserves(MonotonicTime now) {
  if (!reserve_) return true;
  ReservedRoom room = reserve_(waiting_.front(), now);
  reserving_ = room.state == RoomState::waiting;
  switch (room.state) {
    case RoomState::waiting: return false;
    case RoomState::held: roomless_ = 0; return true;
    case RoomState::refused: break;
  }
  const std::string why = fmt::format("no room could be reserved for {} pods in a row, at last: {}",
                                      kRoomlessMax, room.problem);
  end(PlannedEnd::no_room, std::move(room.problem));
  if (++roomless_ >= kRoomlessMax) abandon(why);
  return false;
}

void PlanEvictions::answered(std::string_view, const kubernetes::ResponseHead& head,
                             std::string_view body, const std::optional<Error>& failure,
                             MonotonicTime now) {
  sent_ = false;
  if (waiting_.empty()) return;
  if (verifies_) return verified(head, body, failure, now);
  const bool success = head.code >= 200 && head.code < 300;
  if (success || (failure && head.code < 200)) {
    const Result<void> accepted =
        failure ? Result<void>(*failure) : kubernetes::check_accepted(body);
    if (accepted.ok()) return end(PlannedEnd::evicted, "");
    return lost(kubernetes::bounded_text(accepted.error().text()), true, Duration::zero(), now);
  }
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  // Also an error need not mean that the pod was not evicted: a proxy answers 502, for instance.
  if (status.code >= 500 && !is_of_budget(status) && !is_of_webhook(status)) {
    return lost(status.text(), may_go_on(status), wanted_by(status, head), now);
  }
  refused(status, head, now);
}

void PlanEvictions::lost(std::string problem, bool may_go_on, Duration wanted, MonotonicTime now) {
  lost_answer_ = true;
  verifies_ = true;
  may_go_on_ = may_go_on;
  not_begun_ = false;
  wanted_ = wanted;
  problem_ = std::move(problem);
  not_before_ = now + backoff_.next(chance_());
}

// The eviction was not begun, because of too many requests or of a conflict. Whether the server is
// overloaded, or only the path of this eviction, shows when the pod is read.
void PlanEvictions::overloaded(std::string problem, Duration wanted, MonotonicTime now) {
  if (!dropped_why_.empty()) return failed_without_answer(std::move(problem));
  verifies_ = true;
  may_go_on_ = lost_answer_;
  not_begun_ = true;
  wanted_ = Duration::zero();
  problem_ = std::move(problem);
  not_before_ = now + std::max(backoff_.next(chance_()), wanted);
}

void PlanEvictions::verified(const kubernetes::ResponseHead& head, std::string_view body,
                             const std::optional<Error>& failure, MonotonicTime now) {
  const PodTarget& pod = waiting_.front().pod;
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  if (!failure && is_of_no_pod(status, pod.pod_namespace, pod.name)) {
    return end(PlannedEnd::gone, problem_);
  }
  if (!failure && head.code == 200) {
    const auto evicted = is_evicted(body, pod.uid);
    if (!evicted) return failed_without_answer(evicted.error().text());
    if (*evicted) return end(PlannedEnd::gone, problem_);
    // The server answers, so it is about the pod: its webhook may be slow, or fail.
    const bool again = (may_go_on_ || not_begun_) && attempts_ < kLostMax && dropped_why_.empty();
    if (!again) {
      lost_answer_ = may_go_on_;
      return failed(problem_, wanted_, now);
    }
    verifies_ = false;
    reads_ = 0;
    not_before_ = now + backoff_.next(chance_());
    return;
  }
  const std::string problem = failure ? kubernetes::bounded_text(failure->text()) : status.text();
  if (!failure && status.is_final()) {
    return end(PlannedEnd::failed, problem_ + "; the pod cannot be read: " + problem);
  }
  const bool is_of_use = lost_answer_ || dropped_why_.empty();
  if (is_of_use && reads_ < kAttemptsMax) {
    not_before_ = now + backoff_.next(chance_());
    return;
  }
  failed_without_answer(problem);
  if (dropped_why_.empty()) abandon("the API server does not answer: " + problem);
}

void PlanEvictions::refused(const kubernetes::ApiStatus& status,
                            const kubernetes::ResponseHead& head, MonotonicTime now) {
  std::string problem = status.text();
  if (options_.background && waiting_.front().background && is_evacuation(status)) {
    return end(PlannedEnd::background, std::move(problem));
  }
  // First: a tenant's webhook chooses the code, the causes and a part of the message.
  if (is_of_webhook(status)) return end(PlannedEnd::refused, std::move(problem));
  const PodTarget& pod = waiting_.front().pod;
  if (is_of_no_pod(status, pod.pod_namespace, pod.name) || is_of_other_pod(status)) {
    return end(PlannedEnd::gone, std::move(problem));
  }
  if (is_of_budget(status)) return end(PlannedEnd::refused_by_budget, std::move(problem));
  if (is_of_other_version(status) && !versions_tried_) {
    if (!dropped_why_.empty()) return end(PlannedEnd::abandoned, dropped_why_);
    versions_tried_ = true;
    old_version_ = !old_version_;
    --attempts_;
    return;
  }
  if (status.is_final()) return end(PlannedEnd::refused, std::move(problem));
  const Duration wanted = wanted_by(status, head);
  // Of a token that ended: it is not about the pod.
  if (status.code == kNoAccess) return try_again(std::move(problem), wanted, now);
  overloaded(std::move(problem), wanted, now);
}

void PlanEvictions::failed_without_answer(std::string problem) {
  end(PlannedEnd::failed, std::move(problem));
  ended_.back().is_of_pod = false;
}

// Errors in many namespaces, and no success in between, are about the server: it may answer reads,
// and be unable to write. A tenant has few namespaces.
void PlanEvictions::failed(const std::string& problem, Duration wanted, MonotonicTime now) {
  failing_.insert(waiting_.front().pod.pod_namespace);
  const std::size_t namespaces = failing_.size();
  if (namespaces >= kFailingNamespacesMax) {
    failed_without_answer(problem);
    if (!dropped_why_.empty()) return;
    return abandon(
        fmt::format("evictions fail in {} namespaces, at last: {}", namespaces, problem));
  }
  end(PlannedEnd::failed, problem);
  const Duration delay = std::min(failure_backoff_.next(chance_()), kFailureDelayMax);
  not_before_ = now + std::max(delay, wanted);
}

void PlanEvictions::try_again(std::string problem, Duration wanted, MonotonicTime now) {
  if (!dropped_why_.empty() || attempts_ >= kAttemptsMax) {
    failed_without_answer(problem);
    if (dropped_why_.empty()) abandon("the API server does not answer: " + problem);
    return;
  }
  not_before_ = now + std::max(backoff_.next(chance_()), wanted);
}

void PlanEvictions::end(PlannedEnd how, std::string problem) {
  const bool decided = how == PlannedEnd::evicted || how == PlannedEnd::background ||
                       how == PlannedEnd::refused || how == PlannedEnd::refused_by_budget;
  if (lost_answer_ && how == PlannedEnd::gone) {
    how = PlannedEnd::evicted;
    problem = "the answer was lost, and the pod is gone or terminates: " + problem;
  } else if (lost_answer_ && !decided) {
    how = PlannedEnd::unknown;
    problem = "an answer was lost; then: " + problem;
  }
  if (decided || how == PlannedEnd::evicted || how == PlannedEnd::gone) {
    failure_backoff_.reset();
    failing_.clear();
  }
  // What may have been evicted counts as evicted in the rest of the plan.
  const bool as_planned =
      may_be_evicted(how) || (how == PlannedEnd::gone && options_.gone_is_planned);
  held_ = holds_ && dropped_why_.empty() && !as_planned;
  ended_.push_back({std::move(waiting_.front()), how, std::move(problem)});
  waiting_.pop_front();
  reserving_ = false;
  lost_answer_ = false;
  verifies_ = false;
  reads_ = 0;
  attempts_ = 0;
  versions_tried_ = false;
  backoff_.reset();
}

std::optional<MonotonicTime> PlanEvictions::due() const {
  if (waiting_.empty() || sent_ || held_ || reserving_) return std::nullopt;
  return not_before_;
}

std::vector<PlanEvictions::Ended> PlanEvictions::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace forestall::cluster
