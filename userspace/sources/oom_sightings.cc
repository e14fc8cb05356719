// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_sightings.h"

#include <algorithm>
#include <utility>

namespace forestall::sources {
namespace {

Duration apart(MonotonicTime a, MonotonicTime b) {
  return a < b ? b - a : a - b;
}

// Empty, zero and nothing all say "not known" in a sighting.
template <typename T>
void fill(T& into, const T& from) {
  if (into == T{}) into = from;
}

}  // namespace

OomKillSighting merge_sightings(const OomKillSighting& event, const OomKillSighting& log) {
  OomKillSighting both = event;
  fill(both.victim.start_ticks, log.victim.start_ticks);
  fill(both.comm, log.comm);
  // An event without a name is one of 6.1's, whose tracepoint passes a pid and no more.
  if (event.comm == decltype(event.comm){}) {
    both.uid = log.uid;
    both.oom_score_adj = log.oom_score_adj;
  }
  fill(both.cgroup, log.cgroup);
  fill(both.path, log.path);
  fill(both.memory, log.memory);
  fill(both.points, log.points);
  fill(both.total_pages, log.total_pages);
  // What the kernel says itself counts before what was concluded.
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

void OomSightings::tell(OomTeller teller, OomKillSighting sighting, MonotonicTime now) {
  const auto same = [&](const Half& half) {
    return !half.complete && half.sighting.victim.pid == sighting.victim.pid &&
           apart(half.sighting.at, sighting.at) <= kWindow;
  };
  const auto other = [&](const Half& half) { return half.teller != teller && same(half); };
  std::erase_if(alone_, [&](const Half& half) { return now - half.told > kWindow; });
  if (const auto told = std::ranges::find_if(alone_, other); told != alone_.end()) {
    alone_.erase(told);
    ++late_;
    return;
  }
  if (const auto half = std::ranges::find_if(halves_, other); half != halves_.end()) {
    half->sighting = teller == OomTeller::bpf ? merge_sightings(sighting, half->sighting)
                                              : merge_sightings(half->sighting, sighting);
    half->complete = true;
    return;
  }
  halves_.push_back({teller, std::move(sighting), now, false});
}

void OomSightings::take(MonotonicTime now, std::vector<OomKillSighting>& kills) {
  while (!halves_.empty()) {
    Half& half = halves_.front();
    if (waits(half, now) && halves_.size() <= kKept) return;
    const bool paired = half.complete || !bpf_ || !log_;
    kills.push_back(half.sighting);
    if (!paired) alone_.push_back(std::move(half));
    halves_.pop_front();
    if (alone_.size() > kKept) alone_.pop_front();
  }
}

std::optional<MonotonicTime> OomSightings::next_look() const {
  if (halves_.empty()) return std::nullopt;
  const Half& half = halves_.front();
  return half.complete || !bpf_ || !log_ ? half.told : half.told + kPatience;
}

}  // namespace forestall::sources
