// SPDX-License-Identifier: Apache-2.0
#include "cluster/event_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kubernetes/api_status.h"
#include "kubernetes/retry_after.h"

namespace forestall::cluster {
namespace {

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return hash;
}

}  // namespace

// One that is reported all the time stays.
bool EventSeries::is_known(const std::string& occurrence) {
  const auto found = std::ranges::find(occurrences_, occurrence);
  if (found == occurrences_.end()) return false;
  std::rotate(found, found + 1, occurrences_.end());
  return true;
}

void EventSeries::remember(const std::string& occurrence) {
  if (occurrence.empty()) return;
  occurrences_.push_back(occurrence);
  if (occurrences_.size() > rate_.remembered) occurrences_.pop_front();
}

bool EventSeries::take_token(MonotonicTime now) {
  if (!token_at_) token_at_ = now;
  while (now - *token_at_ >= rate_.per_new) {
    if (tokens_ >= rate_.burst) {
      token_at_ = now;
      break;
    }
    ++tokens_;
    *token_at_ += rate_.per_new;
  }
  if (tokens_ == 0) return false;
  --tokens_;
  return true;
}

EventSeries::Series* EventSeries::find(const ClusterEvent& event, MonotonicTime now) {
  const auto found = std::ranges::find_if(series_, [&event](const Series& each) {
    return each.event.subject == event.subject && each.event.reason == event.reason &&
           each.event.topic == event.topic;
  });
  if (found == series_.end()) return nullptr;
  if (now - found->last < kSeriesEndsAfter || found->waits() || found->sent > 0) return &*found;
  series_.erase(found);
  return nullptr;
}

bool EventSeries::has(const EventSubject& subject, std::string_view reason) const {
  return std::ranges::any_of(series_, [&](const Series& each) {
    return each.event.subject == subject && each.event.reason == reason;
  });
}

bool EventSeries::all_reported() const {
  return std::ranges::none_of(series_,
                              [](const Series& each) { return each.sent > 0 || each.waits(); });
}

bool EventSeries::make_room() {
  if (series_.size() < kMax) return true;
  const auto over = std::ranges::find_if(
      series_, [](const Series& each) { return each.sent == 0 && !each.waits(); });
  if (over == series_.end()) return false;
  series_.erase(over);
  return true;
}

void EventSeries::count(Series& series, const ClusterEvent& event, MonotonicTime now) {
  if (!series.waits() && series.sent == 0) series.waits_since = now;
  ++series.count.count;
  // The clock may have been set back since.
  series.count.last = std::max(series.count.first, wall_());
  series.last = now;
  series.event.message = event.message;
}

void EventSeries::add(const ClusterEvent& event, const std::string& occurrence, MonotonicTime now) {
  if (is_known(occurrence)) return;
  remember(occurrence);
  if (Series* known = find(event, now)) return count(*known, event, now);
  ClusterEvent reported = event;
  if (!take_token(now)) {
    reported = {{"Node", "", node_, node_}, event.reason, ""};
    reported.message =
        fmt::format("(combined from similar events): {} {}: {}", event.subject.kind,
                    event.subject.object_namespace + '/' + event.subject.name, event.message);
    if (Series* known = find(reported, now)) return count(*known, reported, now);
  }
  if (make_room()) {
    begin(reported, occurrence, now);
  } else {
    ++dropped_;
  }
}

void EventSeries::offer(const ClusterEvent& event, const std::string& occurrence,
                        MonotonicTime now) {
  if (is_known(occurrence)) return;
  if (Series* known = find(event, now)) {
    count(*known, event, now);
  } else {
    if (!take_token(now) || !make_room()) return;
    begin(event, occurrence, now).expires = false;
  }
  remember(occurrence);
}

EventSeries::Series& EventSeries::begin(const ClusterEvent& event, const std::string& occurrence,
                                        MonotonicTime now) {
  const std::int64_t wall = wall_();
  Series series;
  series.event = event;
  // The same after a restart of this process, so that an Event is not made twice.
  const std::string identity =
      occurrence.empty() ? fmt::format("{} {} {}", node_, wall, to_ns(now)) : occurrence;
  series.name = fmt::format("forestall.{:016x}",
                            hash_of(fmt::format("{} {} {} {}", identity, event.subject.uid,
                                                event.reason, occurrence.empty() ? ++made_ : 0)));
  series.count = {.count = 1, .first = wall, .last = wall};
  series.last = series.waits_since = now;
  series.not_before = now + kFirstDelay;
  return series_.emplace_back(std::move(series));
}

// The next request of the series is sent after its interval, as after one that was accepted.
void EventSeries::pause(Series& series, MonotonicTime now) {
  series.not_before = now + series.interval;
  series.interval = std::min(series.interval * 2, kLongestInterval);
}

void EventSeries::drop(Series& series, MonotonicTime now) {
  dropped_ += series.count.count - series.reported;
  series.reported = series.count.count;
  pause(series, now);
}

std::optional<KeyedRequest> EventSeries::next(MonotonicTime now) {
  for (Series& each : series_) {
    if (is_expired(each, now)) drop(each, now);
  }
  const auto found = std::ranges::find_if(
      series_, [now](const Series& each) { return each.waits() && each.not_before <= now; });
  if (found == series_.end()) return std::nullopt;
  found->sent = found->count.count;
  return KeyedRequest{found->name,
                      found->reported == 0
                          ? create_event(found->event, found->name, found->count, node_)
                          : count_event(found->event, found->name, found->count)};
}

void EventSeries::answered(std::string_view key, const kubernetes::ResponseHead& head,
                           std::string_view body, const std::optional<Error>& failure,
                           MonotonicTime now) {
  const auto found = std::ranges::find(series_, key, &Series::name);
  if (found == series_.end()) return;
  const std::uint64_t sent = std::exchange(found->sent, 0);
  const bool is_new = found->reported == 0;
  if (head.code < 300) {
    const bool success = head.code >= 200;
    const Result<void> answer = failure ? Result<void>(*failure) : kubernetes::check_accepted(body);
    if (success && answer.ok()) return accepted(*found, sent, now);
    problem_ = answer.ok() ? fmt::format("the answer has the code {}", head.code)
                           : kubernetes::bounded_text(answer.error().text());
    return refused(*found, false, std::nullopt, now);
  }
  const kubernetes::ApiStatus status = kubernetes::parse_api_status(head.code, body);
  // Its first request was accepted, and the answer lost.
  if (is_new && status.code == 409 && status.reason == "AlreadyExists") {
    return accepted(*found, sent, now);
  }
  problem_ = status.text();
  const bool is_removed = status.is_object && status.code == 404 && !is_new;
  if (is_removed) begin_again(*found);
  refused(*found, !is_removed && status.is_final(),
          status.retry_after ? status.retry_after
                             : kubernetes::parse_retry_after(head.retry_after, head.date),
          now);
}

void EventSeries::accepted(Series& series, std::uint64_t sent, MonotonicTime now) {
  problem_.clear();
  series.reported = sent;
  series.backoff.reset();
  series.waits_since = now;
  pause(series, now);
}

// The server removes Events after an hour: the next one is a new object.
void EventSeries::begin_again(Series& series) {
  series.name += fmt::format("{:x}", ++made_);
  series.count.count -= series.reported;
  series.count.first = series.count.last;
  series.reported = 0;
}

void EventSeries::refused(Series& series, bool is_final, std::optional<Duration> wanted,
                          MonotonicTime now) {
  if (is_final) return drop(series, now);
  series.not_before =
      now + std::max(series.backoff.next(chance_()), wanted.value_or(Duration::zero()));
}

std::optional<MonotonicTime> EventSeries::due() const {
  std::optional<MonotonicTime> first;
  for (const Series& each : series_) {
    if (!each.waits()) continue;
    const MonotonicTime at = each.expires
                                 ? std::min(each.not_before, each.waits_since + kExpiresAfter)
                                 : each.not_before;
    if (!first || at < *first) first = at;
  }
  return first;
}

}  // namespace forestall::cluster
