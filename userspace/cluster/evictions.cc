// SPDX-License-Identifier: Apache-2.0
#include "cluster/evictions.h"

#include <algorithm>
#include <utility>

#include "cluster/eviction_request.h"
#include "kubernetes/retry_after.h"

namespace forestall::cluster {
namespace {

constexpr int kMissingObject = 404;

}  // namespace

std::string_view to_string(EvictionEnd end) {
  switch (end) {
    case EvictionEnd::evicted: return "evicted";
    case EvictionEnd::gone: return "gone";
    case EvictionEnd::another_pod: return "another-pod";
    case EvictionEnd::refused_by_budget: return "refused-by-budget";
    case EvictionEnd::refused: return "refused";
    case EvictionEnd::expired: return "expired";
    case EvictionEnd::dropped: return "dropped";
  }
  return "";
}

bool Evictions::add(const KilledPod& pod, MonotonicTime now) {
  if (pod.uid.empty() || pod.name.empty() || pod.pod_namespace.empty()) return false;
  if (find(pod.uid) != waiting_.end() || is_answered(pod)) return false;
  const MonotonicTime killed = std::min(pod.at.value_or(now), now);
  if (now - killed >= kExpiresAfter) return false;
  if (waiting_.size() >= kMax) {
    const std::string oldest = waiting_.front().pod.uid;
    end(oldest, EvictionEnd::dropped);
  }
  waiting_.push_back(
      {.pod = pod, .expires = killed + kExpiresAfter, .not_before = now, .backoff = {}});
  return true;
}

// A pod whose deletion has begun does not live again under the same UID.
bool Evictions::is_answered(const KilledPod& pod) const {
  return std::ranges::any_of(answered_, [&pod](const Ended& each) {
    if (each.pod.uid != pod.uid) return false;
    const bool is_deleted = each.end == EvictionEnd::evicted || each.end == EvictionEnd::gone;
    return is_deleted || (!pod.kill.empty() && each.pod.kill == pod.kill);
  });
}

void Evictions::gone(std::string_view uid) {
  end(uid, EvictionEnd::gone);
}

void Evictions::end_expired(MonotonicTime now) {
  std::vector<std::string> expired;
  for (const Waiting& each : waiting_) {
    if (!each.sent && each.expires <= now) expired.push_back(each.pod.uid);
  }
  for (const std::string& uid : expired) end(uid, EvictionEnd::expired);
}

std::optional<KeyedRequest> Evictions::next(MonotonicTime now) {
  end_expired(now);
  const auto found = std::ranges::find_if(
      waiting_, [now](const Waiting& each) { return !each.sent && each.not_before <= now; });
  if (found == waiting_.end()) return std::nullopt;
  found->sent = true;
  found->old_version = old_version_;
  return KeyedRequest{found->pod.uid, request_for(*found)};
}

kubernetes::OutgoingRequest Evictions::request_for(const Waiting& waiting) const {
  const KilledPod& pod = waiting.pod;
  const PodTarget target{pod.pod_namespace, pod.name, pod.uid};
  kubernetes::OutgoingRequest request = waiting.deletes
                                            ? deletion_request(target)
                                            : eviction_request(target, old_version_, std::nullopt);
  request.longest = kAnswerTimeout;
  return request;
}

void Evictions::answered(std::string_view uid, const kubernetes::ResponseHead& head,
                         std::string_view body, const std::optional<Error>& failure,
                         MonotonicTime now) {
  const auto found = find(uid);
  if (found == waiting_.end()) return;  // gone() came before the answer
  found->sent = false;
  const bool success = head.code >= 200 && head.code < 300;
  if (success || (failure && head.code < 200)) {
    const Result<void> accepted =
        failure ? Result<void>(*failure) : kubernetes::check_accepted(body);
    if (accepted.ok()) {
      problem_.clear();
      return end(uid, EvictionEnd::evicted);
    }
    problem_ = kubernetes::bounded_text(accepted.error().text());
    found->not_before = now + found->backoff.next(chance_());
    return;
  }
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  problem_ = status.text();
  refused(*found, status, head, now);
}

void Evictions::refused(Waiting& waiting, const kubernetes::ApiStatus& status,
                        const kubernetes::ResponseHead& head, MonotonicTime now) {
  const std::string uid = waiting.pod.uid;
  if (is_of_no_pod(status, waiting.pod.pod_namespace, waiting.pod.name)) {
    return end(uid, EvictionEnd::gone);
  }
  // Other conflicts are of a concurrent change, and are tried again: for the same UID only.
  if (is_of_other_pod(status)) return end(uid, EvictionEnd::another_pod);
  if (is_of_budget(status)) return refused_by_budget(waiting, now);
  const bool other_version = is_of_other_version(status);
  // A 404 that does not name the pod may be of a webhook, or of a server that has just started. A
  // webhook whose denial has no code is answered with 400, and may permit the eviction later.
  const bool may_change =
      status.code == kMissingObject || (status.code == 400 && is_of_webhook(status));
  if (status.is_final() && !may_change && !other_version) {
    return end(uid, EvictionEnd::refused);
  }
  // Several requests of the same version may be refused; the first one changes it.
  const bool changes = other_version && waiting.old_version == old_version_;
  if (changes) old_version_ = !old_version_;
  // A token is read again for each request, so the first 401 may be of the one before.
  const bool new_token = status.code == 401 && !std::exchange(waiting.credentials_refused, true);
  if (status.code != 401) waiting.credentials_refused = false;
  const Duration delay = waiting.backoff.next(chance_());
  if (new_token || (other_version && !waiting.old_version)) {
    waiting.not_before = now;
    return;
  }
  const auto wanted = status.retry_after
                          ? status.retry_after
                          : kubernetes::parse_retry_after(head.retry_after, head.date);
  waiting.not_before = now + std::max(delay, wanted.value_or(Duration::zero()));
}

void Evictions::refused_by_budget(Waiting& waiting, MonotonicTime now) {
  if (budgets_ == DisruptionBudgets::respect) {
    const std::string uid = waiting.pod.uid;
    return end(uid, EvictionEnd::refused_by_budget);
  }
  // At once: the kubelet starts the containers again within a second.
  waiting.not_before = waiting.deletes ? now + waiting.backoff.next(chance_()) : now;
  waiting.deletes = true;
}

std::deque<Evictions::Waiting>::iterator Evictions::find(std::string_view uid) {
  return std::ranges::find_if(waiting_, [uid](const Waiting& each) { return each.pod.uid == uid; });
}

void Evictions::end(std::string_view uid, EvictionEnd how) {
  const auto found = find(uid);
  if (found == waiting_.end()) return;
  ended_.push_back({std::move(found->pod), how});
  waiting_.erase(found);
  if (how != EvictionEnd::expired && how != EvictionEnd::dropped) {
    answered_.push_back(ended_.back());
    if (answered_.size() > kMax) answered_.pop_front();
  }
  // A caller that does not take them must not make them grow.
  if (ended_.size() > kMax) ended_.erase(ended_.begin());
}

std::optional<MonotonicTime> Evictions::due() const {
  std::optional<MonotonicTime> first;
  for (const Waiting& each : waiting_) {
    if (each.sent) continue;
    const MonotonicTime at = std::min(each.not_before, each.expires);
    if (!first || at < *first) first = at;
  }
  return first;
}

std::vector<Evictions::Ended> Evictions::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace forestall::cluster
