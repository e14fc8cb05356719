// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_report_writer.h"

#include <algorithm>
#include <utility>

#include "kubernetes/api_status.h"
#include "kubernetes/retry_after.h"
#include "kubernetes/url.h"

namespace forestall::cluster {
namespace {

constexpr int kCreated = 201;
constexpr int kNotPermitted = 403;
constexpr int kNoSuchKind = 404;
constexpr std::string_view kReportsPath = "/apis/forestall.dev/v1alpha1/nodereports/";

}  // namespace

void NodeReportWriter::set(std::string object, MonotonicTime now) {
  waiting_ = std::move(object);
  // After a failure the delay remains.
  if (problem_.empty()) not_before_ = now;
}

// Server-side apply: it creates the object or replaces all that this process wrote before.
std::optional<KeyedRequest> NodeReportWriter::next(MonotonicTime now) {
  if (waiting_.empty() || sent_ || now < not_before_) return std::nullopt;
  kubernetes::OutgoingRequest request;
  request.method = "PATCH";
  request.target = std::string(kReportsPath) + kubernetes::percent_encoded(node_) +
                   "?fieldManager=forestall&force=true";
  request.content_type = "application/apply-patch+yaml";
  request.body = std::exchange(waiting_, {});
  request.longest = kAnswerLongest;
  sent_ = true;
  return KeyedRequest{"node-report", std::move(request)};
}

// What was refused is not sent again: the next report is newer.
void NodeReportWriter::answered(std::string_view, const kubernetes::ResponseHead& head,
                                std::string_view body, const std::optional<Error>& failure,
                                MonotonicTime now) {
  sent_ = false;
  const bool success = !failure && head.code >= 200 && head.code < 300;
  const Result<void> accepted = failure
                                    ? Result<void>(*failure)
                                    : (success ? kubernetes::check_accepted(body) : Result<void>());
  if (success && accepted.ok()) {
    problem_.clear();
    backoff_.reset();
    not_before_ = now;
    recreated_ = recreated_ || (accepted_ && head.code == kCreated);
    accepted_ = true;
    return;
  }
  Duration delay = backoff_.next(chance_());
  not_before_ = now + delay;
  if (!accepted.ok()) {
    problem_ = kubernetes::bounded_text(accepted.error().text());
    return;
  }
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  problem_ = status.text();
  if (head.code == kNoSuchKind) {
    problem_ += "; the API server has no kind NodeReport: apply scripts/deploy/kubernetes/crd";
  }
  // The API server's 404 for a kind that it does not have is plain text.
  const bool no_right = status.is_object && head.code == kNotPermitted;
  if (head.code == kNoSuchKind || no_right) delay = kRefusedDelay;
  if (const auto wanted = kubernetes::parse_retry_after(head.retry_after, head.date)) {
    delay = std::max(delay, *wanted);
  }
  not_before_ = now + delay;
}

std::optional<MonotonicTime> NodeReportWriter::due() const {
  if (waiting_.empty() || sent_) return std::nullopt;
  return not_before_;
}

}  // namespace forestall::cluster
