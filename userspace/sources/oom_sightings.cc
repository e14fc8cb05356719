// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_sightings.h"

#include <algorithm>
#include <utility>

namespace forestall::sources {
namespace {

Duration apart(MonotonicTime a, MonotonicTime b) {
  return a < b ? b - a : a - b;
}

// Empty, zero and nullopt all mean "unknown" in a sighting.
template <typename T>
void fill(T& into, const T& from) {
  if (into == T{}) into = from;
}

}  // namespace

OomKillSighting merge_sightings(const OomKillSighting& event, const OomKillSighting& log) {
  OomKillSighting both = event;
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

bool OomSightings::waits(const Half& half, MonotonicTime now) const {
  return bpf_ && log_ && !half.complete && now - half.told < kPatience;
}

void OomSightings::Halves::push_back(Half half) {
  half.key = next_++;
  by_victim_.emplace(half.sighting.victim.pid, half.key);
  halves_.emplace_hint(halves_.end(), half.key, std::move(half));
}

OomSightings::Half OomSightings::Halves::take_front() {
  const auto first = halves_.begin();
  by_victim_.erase({first->second.sighting.victim.pid, first->first});
  return std::move(halves_.extract(first).mapped());
}

void OomSightings::Halves::erase(const Half& half) {
  const auto key = half.key;
  by_victim_.erase({half.sighting.victim.pid, key});
  halves_.erase(key);
}

OomSightings::Half* OomSightings::Halves::find_other(OomTeller teller,
                                                     const OomKillSighting& sighting) {
  const auto pid = sighting.victim.pid;
  for (auto at = by_victim_.lower_bound({pid, 0}); at != by_victim_.end() && at->first == pid;
       ++at) {
    Half& half = halves_.at(at->second);
    if (half.teller == teller || half.complete) continue;
    if (apart(half.sighting.at, sighting.at) <= kWindow) return &half;
  }
  return nullptr;
}

void OomSightings::take_from(Source& source, MonotonicTime now) {
  const auto teller = source.feature() == Feature::oom_log ? OomTeller::log : OomTeller::bpf;
  for (OomKillSighting& kill : source.take_kills()) tell(teller, std::move(kill), now);
}

void OomSightings::tell(OomTeller teller, OomKillSighting sighting, MonotonicTime now) {
  // They were taken in order of arrival.
  while (!alone_.empty() && now - alone_.front().told > kWindow) alone_.take_front();
  if (const Half* told = alone_.find_other(teller, sighting)) {
    alone_.erase(*told);
    ++late_;
    return;
  }
  if (Half* half = halves_.find_other(teller, sighting)) {
    half->sighting = teller == OomTeller::bpf ? merge_sightings(sighting, half->sighting)
                                              : merge_sightings(half->sighting, sighting);
    half->complete = true;
    return;
  }
  halves_.push_back({teller, std::move(sighting), now, false});
}

void OomSightings::take(MonotonicTime now, std::vector<OomKillSighting>& kills) {
  while (!halves_.empty()) {
    if (waits(halves_.front(), now) && halves_.size() <= kKept) return;
    Half half = halves_.take_front();
    const bool paired = half.complete || !bpf_ || !log_;
    kills.push_back(half.sighting);
    if (!paired) alone_.push_back(std::move(half));
    if (alone_.size() > kKept) alone_.take_front();
  }
}

std::optional<MonotonicTime> OomSightings::next_look() const {
  if (halves_.empty()) return std::nullopt;
  const Half& half = halves_.front();
  return half.complete || !bpf_ || !log_ ? half.told : half.told + kPatience;
}

}  // namespace forestall::sources
