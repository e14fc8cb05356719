// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_event_correlator.h"

#include <algorithm>
#include <utility>

namespace forestall::sources {
namespace {

Duration apart(MonotonicTime a, MonotonicTime b) {
  return a < b ? b - a : a - b;
}

// Empty, zero and nullopt all mean "unknown" in an event.
template <typename T>
void fill(T& into, const T& from) {
  if (into == T{}) into = from;
}

}  // namespace

OomKillEvent merge_events(const OomKillEvent& event, const OomKillEvent& log) {
  OomKillEvent both = event;
  fill(both.victim.start_ticks, log.victim.start_ticks);
  fill(both.comm, log.comm);
  // An event without a name comes from 6.1, whose tracepoint passes only a pid.
  if (event.comm == decltype(event.comm){}) {
    both.uid = log.uid;
    both.oom_score_adj = log.oom_score_adj;
  }
  fill(both.cgroup, log.cgroup);
  fill(both.path, log.path);
  fill(both.memory, log.memory);
  fill(both.points, log.points);
  fill(both.total_pages, log.total_pages);
  // The kernel's own constraint takes precedence over a deduced one.
  if (log.constraint && (!event.constraint || event.constraint_deduced)) {
    both.constraint = log.constraint;
    both.constraint_deduced = log.constraint_deduced;
  }
  if (both.constraint && *both.constraint != Constraint::memcg) both.domain = {};
  fill(both.domain_path, log.domain_path);
  fill(both.domain_usage, log.domain_usage);
  fill(both.domain_limit, log.domain_limit);
  fill(both.killer, log.killer);
  fill(both.killer_comm, log.killer_comm);
  both.with_another = event.with_another || log.with_another;
  return both;
}

bool OomEventCorrelator::waits(const Half& half, MonotonicTime now) const {
  return bpf_ && log_ && !half.complete && now - half.reported < kPatience;
}

void OomEventCorrelator::Halves::push_back(Half half) {
  half.key = next_++;
  by_victim_.emplace(half.event.victim.pid, half.key);
  halves_.emplace_hint(halves_.end(), half.key, std::move(half));
}

OomEventCorrelator::Half OomEventCorrelator::Halves::take_front() {
  const auto first = halves_.begin();
  by_victim_.erase({first->second.event.victim.pid, first->first});
  return std::move(halves_.extract(first).mapped());
}

void OomEventCorrelator::Halves::erase(const Half& half) {
  const auto key = half.key;
  by_victim_.erase({half.event.victim.pid, key});
  halves_.erase(key);
}

OomEventCorrelator::Half* OomEventCorrelator::Halves::find_other(OomEventSource event_source,
                                                                 const OomKillEvent& event) {
  const auto pid = event.victim.pid;
  for (auto at = by_victim_.lower_bound({pid, 0}); at != by_victim_.end() && at->first == pid;
       ++at) {
    Half& half = halves_.at(at->second);
    if (half.event_source == event_source || half.complete) continue;
    if (apart(half.event.at, event.at) <= kWindow) return &half;
  }
  return nullptr;
}

void OomEventCorrelator::take_from(Source& source, MonotonicTime now) {
  const auto event_source =
      source.feature() == Feature::oom_log ? OomEventSource::log : OomEventSource::bpf;
  for (OomKillEvent& kill : source.take_kills()) report(event_source, std::move(kill), now);
}

void OomEventCorrelator::report(OomEventSource event_source, OomKillEvent event,
                                MonotonicTime now) {
  // They were taken in order of arrival.
  while (!alone_.empty() && now - alone_.front().reported > kWindow) alone_.take_front();
  if (const Half* reported = alone_.find_other(event_source, event)) {
    alone_.erase(*reported);
    ++late_;
    return;
  }
  if (Half* half = halves_.find_other(event_source, event)) {
    half->event = event_source == OomEventSource::bpf ? merge_events(event, half->event)
                                                      : merge_events(half->event, event);
    half->complete = true;
    return;
  }
  halves_.push_back({event_source, std::move(event), now, false});
}

void OomEventCorrelator::take(MonotonicTime now, std::vector<OomKillEvent>& kills) {
  while (!halves_.empty()) {
    if (waits(halves_.front(), now) && halves_.size() <= kKept) return;
    Half half = halves_.take_front();
    const bool paired = half.complete || !bpf_ || !log_;
    kills.push_back(half.event);
    if (!paired) alone_.push_back(std::move(half));
    if (alone_.size() > kKept) alone_.take_front();
  }
}

std::optional<MonotonicTime> OomEventCorrelator::next_due() const {
  if (halves_.empty()) return std::nullopt;
  const Half& half = halves_.front();
  return half.complete || !bpf_ || !log_ ? half.reported : half.reported + kPatience;
}

}  // namespace forestall::sources
