// SPDX-License-Identifier: Apache-2.0
#include "cluster/plan_evictions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kubernetes/retry_after.h"

namespace forestall::cluster {
namespace {

constexpr int kNoAccess = 401;
constexpr int kServerTimeout = 504;  // the request may go on

// Whether the same request has no success later.
bool is_of_pod(int code) {
  constexpr int kRequestTimeout = 408;
  constexpr int kOverload = 429;
  return code >= 300 && code < 500 && code != kNoAccess && code != kRequestTimeout &&
         code != kOverload;
}

}  // namespace

std::string_view to_string(PlannedEnd end) {
  switch (end) {
    case PlannedEnd::evicted: return "evicted";
    case PlannedEnd::gone: return "gone";
    case PlannedEnd::refused_by_budget: return "refused-by-budget";
    case PlannedEnd::refused: return "refused";
    case PlannedEnd::failed: return "failed";
    case PlannedEnd::unknown: return "unknown";
    case PlannedEnd::abandoned: return "abandoned";
  }
  return "";
}

void PlanEvictions::begin(std::vector<PlannedEviction> plan, MonotonicTime made, bool holds) {
  resume(std::move(plan), holds);
  made_ = made;
  not_before_ = made;
  failures_ = 0;
  failure_backoff_.reset();
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
  // Of a request that was sent the answer follows.
  if (!waiting_.empty() && !sent_) end(PlannedEnd::abandoned, dropped_why_);
}

std::optional<KeyedRequest> PlanEvictions::next(MonotonicTime now) {
  if (waiting_.empty() || sent_ || held_ || now < not_before_) return std::nullopt;
  if (!may_evict_()) {
    abandon("another process may lead");
    return std::nullopt;
  }
  if (now - made_ >= kPlanAgeMax) {
    abandon("the state that the plan was made for is too old");
    return std::nullopt;
  }
  const PlannedEviction& first = waiting_.front();
  kubernetes::OutgoingRequest request = eviction_request(first.pod, old_version_, options_.grace);
  request.longest = options_.answer_longest;
  sent_ = true;
  ++attempts_;
  return KeyedRequest{first.pod.uid, std::move(request)};
}

void PlanEvictions::answered(std::string_view, const kubernetes::ResponseHead& head,
                             std::string_view body, const std::optional<Error>& failure,
                             MonotonicTime now) {
  sent_ = false;
  if (waiting_.empty()) return;
  if (!failure && head.code >= 200 && head.code < 300) return end(PlannedEnd::evicted, "");
  if (failure || head.code == kServerTimeout) lost_answer_ = true;
  if (failure && head.code < 300) {
    return try_again(kubernetes::bounded_text(failure->text()), Duration::zero(), now);
  }
  refused(kubernetes::parse_api_status(head.code, body), head, now);
}

void PlanEvictions::refused(const kubernetes::ApiStatus& status,
                            const kubernetes::ResponseHead& head, MonotonicTime now) {
  std::string problem = status.text();
  if (status.code == 404 || is_of_other_pod(status)) {
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
  if (is_of_pod(status.code)) return end(PlannedEnd::refused, std::move(problem));
  const Duration wanted =
      (status.retry_after ? status.retry_after
                          : kubernetes::parse_retry_after(head.retry_after, head.date))
          .value_or(Duration::zero());
  // Of a token that ended, or without an answer of the server behind a proxy: it is not of the pod.
  if (status.code == kNoAccess || status.code == kServerTimeout) {
    return try_again(std::move(problem), wanted, now);
  }
  failed(std::move(problem), wanted, now);
}

void PlanEvictions::failed(std::string problem, Duration wanted, MonotonicTime now) {
  ++failures_;
  end(PlannedEnd::failed, problem);
  not_before_ = now + std::max(failure_backoff_.next(chance_()), wanted);
  if (failures_ >= kFailuresMax && dropped_why_.empty()) {
    abandon("the API server does not evict: " + problem);
  }
}

void PlanEvictions::try_again(std::string problem, Duration wanted, MonotonicTime now) {
  if (!dropped_why_.empty() || attempts_ >= kAttemptsMax) {
    end(PlannedEnd::failed, problem);
    if (dropped_why_.empty()) abandon("the API server does not answer: " + problem);
    return;
  }
  not_before_ = now + std::max(backoff_.next(chance_()), wanted);
}

void PlanEvictions::end(PlannedEnd how, std::string problem) {
  const bool decided = how == PlannedEnd::evicted || how == PlannedEnd::refused ||
                       how == PlannedEnd::refused_by_budget;
  if (decided || how == PlannedEnd::gone) {
    failures_ = 0;
    failure_backoff_.reset();
  }
  if (lost_answer_ && !decided) {
    how = PlannedEnd::unknown;
    problem = "an answer was lost; then: " + problem;
  }
  // What may have been evicted counts as evicted in the rest of the plan.
  held_ =
      holds_ && dropped_why_.empty() && how != PlannedEnd::evicted && how != PlannedEnd::unknown;
  ended_.push_back({std::move(waiting_.front()), how, std::move(problem)});
  waiting_.pop_front();
  lost_answer_ = false;
  attempts_ = 0;
  versions_tried_ = false;
  backoff_.reset();
}

std::optional<MonotonicTime> PlanEvictions::due() const {
  if (waiting_.empty() || sent_ || held_) return std::nullopt;
  return not_before_;
}

std::vector<PlanEvictions::Ended> PlanEvictions::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace forestall::cluster
