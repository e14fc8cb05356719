// SPDX-License-Identifier: Apache-2.0
#include "cluster/disruption_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "cluster/cluster_event.h"
#include "cluster/eviction_request.h"
#include "kubernetes/api_status.h"
#include "kubernetes/url.h"
#include "text/json_value.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

constexpr const char* kVersionKey = "/version";  // no UID has a '/'
constexpr std::size_t kConditionMessageMax = 1'000;
constexpr Duration kPatchAnswerLongest = std::chrono::seconds(10);

// "26" and, of some providers, "26+".
std::optional<std::uint64_t> number_before_plus(std::string_view text) {
  return parse_u64(text.substr(0, text.find('+')));
}

// Whether it is at least 1.`minor`; nothing: it cannot be read.
std::optional<bool> is_at_least(std::string_view body, std::uint64_t minor) {
  const auto document = text::JsonDocument::parse(body);
  if (!document) return std::nullopt;
  const auto major_text = document->root().text("major");
  const auto minor_text = document->root().text("minor");
  if (!major_text || !minor_text) return std::nullopt;
  const auto major_number = number_before_plus(*major_text);
  const auto minor_number = number_before_plus(*minor_text);
  if (!major_number || !minor_number) return std::nullopt;
  return *major_number > 1 || (*major_number == 1 && *minor_number >= minor);
}

kubernetes::OutgoingRequest target_request(const KilledPod& pod, std::int64_t wall) {
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.key("metadata");
  out.begin_object();
  out.member("uid", pod.uid);
  out.end_object();
  out.key("status");
  out.begin_object();
  out.key("conditions");
  out.begin_list();
  out.begin_object();
  out.member("type", "DisruptionTarget");
  out.member("status", "True");
  out.member("reason", "TerminationByForestall");
  out.member("message", kubernetes::bounded_text(pod.message, kConditionMessageMax));
  out.member("lastTransitionTime", api_time(wall));
  out.end_object();
  out.end_list();
  out.end_object();
  out.end_object();
  kubernetes::OutgoingRequest request;
  request.method = "PATCH";
  request.target = fmt::format("/api/v1/namespaces/{}/pods/{}/status",
                               kubernetes::percent_encoded(pod.pod_namespace),
                               kubernetes::percent_encoded(pod.name));
  // It adds to the list of conditions, by type.
  request.content_type = "application/strategic-merge-patch+json";
  request.body = std::move(out).take();
  request.longest = kPatchAnswerLongest;
  return request;
}

}  // namespace

void DisruptionTargets::add(const KilledPod& pod, MonotonicTime now) {
  const auto is_same = [&](const Waiting& each) { return each.pod.uid == pod.uid; };
  if (std::ranges::any_of(waiting_, is_same)) return;
  if (waiting_.size() >= kMax) waiting_.pop_front();
  waiting_.push_back(
      {.pod = pod, .wall = wall_(), .expires = now + kExpiresAfter, .not_before = now});
}

bool DisruptionTargets::needs_version(MonotonicTime now) const {
  if (!is_defined_) return true;
  return !waiting_.empty() && now - version_at_ >= kVersionExpiresAfter;
}

std::optional<KeyedRequest> DisruptionTargets::next(MonotonicTime now) {
  std::erase_if(waiting_, [now](const Waiting& each) { return !each.sent && each.expires <= now; });
  if (needs_version(now)) {
    if (version_sent_ || version_not_before_ > now) return std::nullopt;
    version_sent_ = true;
    kubernetes::OutgoingRequest request;
    request.target = "/version";
    request.longest = kPatchAnswerLongest;
    return KeyedRequest{kVersionKey, std::move(request)};
  }
  if (!*is_defined_) {
    waiting_.clear();
    return std::nullopt;
  }
  const auto found = std::ranges::find_if(
      waiting_, [now](const Waiting& each) { return !each.sent && each.not_before <= now; });
  if (found == waiting_.end()) return std::nullopt;
  found->sent = true;
  return KeyedRequest{found->pod.uid, target_request(found->pod, found->wall)};
}

void DisruptionTargets::answered(std::string_view key, const kubernetes::ResponseHead& head,
                                 std::string_view body, const std::optional<Error>& failure,
                                 MonotonicTime now) {
  const int code = failure ? 0 : head.code;
  const bool success = code >= 200 && code < 300;
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(code, success ? "" : body);
  problem_.clear();
  if (!success) problem_ = failure ? kubernetes::bounded_text(failure->text()) : status.text();
  if (key == kVersionKey) return answered_version(code, body, now);
  const auto found =
      std::ranges::find_if(waiting_, [key](const Waiting& each) { return each.pod.uid == key; });
  if (found == waiting_.end()) return;
  found->sent = false;
  if (success) {
    const Result<void> accepted = kubernetes::check_accepted(body);
    if (accepted.ok()) return end(key);
    problem_ = kubernetes::bounded_text(accepted.error().text());
  }
  // 404: the pod is gone; 409 or 422: another pod has the name.
  if (status.is_final() || is_of_other_pod(status)) return end(key);
  found->not_before = now + found->backoff.next(chance_());
}

void DisruptionTargets::answered_version(int code, std::string_view body, MonotonicTime now) {
  version_sent_ = false;
  const auto known = code == 200 ? is_at_least(body, kFirstMinor) : std::nullopt;
  if (!known) {
    if (problem_.empty()) problem_ = "the server's version cannot be read";
    version_not_before_ = now + version_backoff_.next(chance_());
    return;
  }
  is_defined_ = known;
  eviction_v1_ = is_at_least(body, kEvictionV1Minor);
  version_at_ = now;
  version_backoff_.reset();
}

void DisruptionTargets::end(std::string_view uid) {
  std::erase_if(waiting_, [uid](const Waiting& each) { return each.pod.uid == uid; });
}

std::optional<MonotonicTime> DisruptionTargets::due() const {
  if (!is_defined_) return version_sent_ ? std::nullopt : std::optional(version_not_before_);
  std::optional<MonotonicTime> first;
  for (const Waiting& each : waiting_) {
    if (each.sent) continue;
    const MonotonicTime at = std::min(std::max(each.not_before, version_not_before_), each.expires);
    if (!first || at < *first) first = at;
  }
  return version_sent_ ? std::nullopt : first;
}

}  // namespace forestall::cluster
