// SPDX-License-Identifier: Apache-2.0
#include "cluster/snapshot_lister.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kubernetes/api_status.h"
#include "kubernetes/retry_after.h"
#include "kubernetes/url.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

constexpr Duration kPageLongest = std::chrono::seconds(60);
constexpr int kMissing = 404;
constexpr int kExpired = 410;  // of `continue`
constexpr int kForbidden = 403;
constexpr int kNotServed = 503;  // of an aggregated API without its server

}  // namespace

std::vector<ListedKind> polled_kinds(bool node_metrics, bool pod_metrics, bool reports) {
  std::vector<ListedKind> kinds;
  if (node_metrics) kinds.push_back({"/apis/metrics.k8s.io/v1beta1/nodes", "", true});
  if (pod_metrics) kinds.push_back({"/apis/metrics.k8s.io/v1beta1/pods", "", true});
  if (reports) kinds.push_back({"/apis/forestall.dev/v1alpha1/nodereports", "", true});
  return kinds;
}

void SnapshotLister::begin(std::vector<ListedKind> kinds, MonotonicTime now) {
  std::ranges::reverse(kinds);
  all_kinds_ = std::move(kinds);
  restarts_ = 0;
  start(now);
}

void SnapshotLister::start(MonotonicTime now) {
  kinds_ = all_kinds_;
  reader_.emplace();
  failure_.clear();
  left_out_.clear();
  may_come_back_ = false;
  bytes_ = 0;
  pages_ = 0;
  continue_.clear();
  old_ = false;
  sent_ = false;
  attempts_ = 0;
  backoff_.reset();
  begun_ = now;
  not_before_ = now;
  ++run_;
}

void SnapshotLister::cancel() {
  kinds_.clear();
  reader_.reset();
  sent_ = false;
  ++run_;
}

rebalance::Snapshot SnapshotLister::take(std::int64_t wall_ns) {
  rebalance::Snapshot snapshot = reader_->take(wall_ns);
  reader_.reset();
  return snapshot;
}

std::optional<KeyedRequest> SnapshotLister::next(MonotonicTime now) {
  if (kinds_.empty() || sent_) return std::nullopt;
  const Duration left = begun_ + kLongest - now;
  if (left <= Duration::zero()) {
    fail("the lists are not complete after 5 minutes");
    return std::nullopt;
  }
  if (now < not_before_) return std::nullopt;
  const ListedKind& kind = kinds_.back();
  kubernetes::OutgoingRequest request;
  request.target = fmt::format("{}?limit={}", old_ ? kind.old_path : kind.path, kPageSize);
  if (!continue_.empty()) request.target += "&continue=" + kubernetes::percent_encoded(continue_);
  request.longest = std::min(may_be_left_out() ? kOptionalLongest : kPageLongest, left);
  sent_ = true;
  ++attempts_;
  return KeyedRequest{std::to_string(run_), std::move(request)};
}

// A part of a list is worse than none.
bool SnapshotLister::may_be_left_out() const {
  return kinds_.back().optional && continue_.empty();
}

void SnapshotLister::answered(std::string_view key, const kubernetes::ResponseHead& head,
                              std::string_view body, const std::optional<Error>& failure,
                              MonotonicTime now) {
  if (key != std::to_string(run_) || kinds_.empty()) return;
  sent_ = false;
  if (!failure && head.code == 200) {
    const auto added = add_page(body);
    if (!added) return fail(kubernetes::bounded_text(added.error().text()));
    attempts_ = 0;
    backoff_.reset();
    if (continue_.empty()) next_kind();
    return;
  }
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  const std::string problem = failure ? kubernetes::bounded_text(failure->text()) : status.text();
  const ListedKind& kind = kinds_.back();
  const bool absent =
      !failure && (head.code == kMissing || (kind.optional && head.code == kNotServed));
  if (absent) return missing(problem, head.code);
  const bool expired = !failure && head.code == kExpired && !continue_.empty();
  if (expired && restarts_ < kRestartsMax) {
    ++restarts_;
    return start(now);
  }
  const bool is_final = !failure && status.is_final();
  if (is_final || attempts_ >= (may_be_left_out() ? kOptionalAttemptsMax : kAttemptsMax)) {
    if (may_be_left_out()) return leave_out(problem, failure || head.code != kForbidden);
    return fail(problem);
  }
  const auto wanted = status.retry_after
                          ? status.retry_after
                          : kubernetes::parse_retry_after(head.retry_after, head.date);
  not_before_ = now + std::max(backoff_.next(chance_()), wanted.value_or(Duration::zero()));
}

void SnapshotLister::missing(const std::string& problem, int code) {
  const ListedKind& kind = kinds_.back();
  if (!old_ && !kind.old_path.empty()) {
    old_ = true;
    attempts_ = 0;
    return;
  }
  if (!kind.optional || !continue_.empty()) return fail(problem);
  leave_out(problem, code != kMissing);
}

void SnapshotLister::leave_out(const std::string& problem, bool may_come_back) {
  if (may_come_back) may_come_back_ = true;
  if (!left_out_.empty()) left_out_ += "; ";
  left_out_ += fmt::format("GET {}: {}", kinds_.back().path, problem);
  attempts_ = 0;
  backoff_.reset();
  next_kind();
}

void SnapshotLister::next_kind() {
  kinds_.pop_back();
  continue_.clear();
  old_ = false;
}

void SnapshotLister::fail(const std::string& problem) {
  const ListedKind& kind = kinds_.back();
  failure_ = fmt::format("GET {}: {}", old_ ? kind.old_path : kind.path, problem);
  kinds_.clear();
  reader_.reset();
}

Result<void> SnapshotLister::add_page(std::string_view body) {
  bytes_ += body.size();
  if (bytes_ > kBytesMax) return error("the lists are larger than 2 GiB");
  if (++pages_ > kPagesMax) return error("the lists have too many pages");
  {
    const auto document = TRY(text::JsonDocument::parse(body));
    const auto metadata = TRY(document.root().find("metadata"));
    std::string next_page = metadata ? TRY(metadata->text("continue")) : "";
    if (!next_page.empty() && next_page == continue_) return error("the server repeats a page");
    continue_ = std::move(next_page);
  }
  std::string text;
  text.reserve(body.size() + descheduler::ClusterSnapshotReader::kJsonPadding);
  text = body;
  return reader_->add(std::move(text));
}

std::optional<MonotonicTime> SnapshotLister::due() const {
  if (kinds_.empty() || sent_) return std::nullopt;
  return std::min(not_before_, begun_ + kLongest);
}

}  // namespace forestall::cluster
