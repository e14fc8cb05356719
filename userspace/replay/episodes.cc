// SPDX-License-Identifier: Apache-2.0
#include "replay/episodes.h"

#include <algorithm>
#include <set>

namespace forestall::replay {
namespace {

using Kind = EpisodeDifference::Kind;

// Two policies may decide the same at one evaluation. A shorter difference is the time an
// evaluation took.
constexpr Duration kSameTime = std::chrono::milliseconds(1);

bool overlap(const Episode& a, const Episode& b) {
  return a.began <= b.end() && b.began <= a.end();
}

bool is_of_same(const Episode& a, const Episode& b) {
  return a.signal == b.signal && a.subject == b.subject;
}

Kind kind_of(const Episode* before, const Episode* after, Duration shift) {
  const bool went = before != nullptr && before->kills > 0;
  const bool goes = after != nullptr && after->kills > 0;
  if (!went && !goes) return Kind::neither;
  if (!went) return before == nullptr ? Kind::only_after : Kind::killed;
  if (!goes) return after == nullptr ? Kind::only_before : Kind::spared;
  if (before->victims.front().path != after->victims.front().path) return Kind::other_victim;
  if (shift > -kSameTime && shift < kSameTime) return Kind::same;
  return shift < Duration::zero() ? Kind::earlier : Kind::later;
}

EpisodeDifference difference_of(const Episode* before, const Episode* after) {
  EpisodeDifference difference;
  difference.before = before;
  difference.after = after;
  const bool both = before != nullptr && after != nullptr && before->kills > 0 && after->kills > 0;
  if (both) difference.shift = after->victims.front().at - before->victims.front().at;
  difference.kind = kind_of(before, after, difference.shift);
  return difference;
}

MonotonicTime began(const EpisodeDifference& difference) {
  if (difference.before == nullptr) return difference.after->began;
  if (difference.after == nullptr) return difference.before->began;
  return std::min(difference.before->began, difference.after->began);
}

}  // namespace

Episode& Episodes::open(const Name& name, MonotonicTime at) {
  const auto [place, is_new] = open_.try_emplace(name, episodes_.size());
  if (is_new) {
    Episode& episode = episodes_.emplace_back();
    episode.signal = name.first;
    episode.subject = name.second;
    episode.began = at;
  }
  Episode& episode = episodes_[place->second];
  episode.seen = at;
  return episode;
}

void Episodes::interrupt() {
  for (const auto& [name, index] : open_) episodes_[index].ended = episodes_[index].seen;
  open_.clear();
}

void Episodes::take(MonotonicTime read, const Decision& decision, std::optional<Duration> age,
                    Duration shift) {
  const MonotonicTime at = read + shift;
  std::set<Name> met;
  for (const Evidence& evidence : decision.evidence) {
    if (!evidence.requires_eviction()) continue;
    const Name name{std::string(to_string(evidence.threshold.signal)), evidence.subject};
    Episode& episode = open(name, at);
    if (met.insert(name).second && episode.limit.empty()) {
      episode.limit = evidence.limit.text();
      episode.began = std::min(read, evidence.first_met.value_or(read)) + shift;
    }
    episode.reason = decision.reason;
    episode.in_grace = episode.kills == 0 && decision.reason == Reason::in_grace;
  }
  for (auto each = open_.begin(); each != open_.end();) {
    if (met.contains(each->first)) {
      ++each;
      continue;
    }
    episodes_[each->second].ended = at;
    each = open_.erase(each);
  }
  if (decision.action == Action::kill) note_kills(at, decision, age);
}

// For a limit on local storage, the kill is the crossing.
void Episodes::note_kills(MonotonicTime at, const Decision& decision, std::optional<Duration> age) {
  for (const Eviction& eviction : decision.evictions) {
    const Workload& victim = decision.considered[eviction.candidate].sample.workload;
    Name name{std::string(to_string(eviction.cause)), victim.path};
    if (decision.driving) {
      const Evidence& evidence = decision.evidence[*decision.driving];
      name = {std::string(to_string(evidence.threshold.signal)), evidence.subject};
    }
    Episode& episode = open(name, at);
    ++episode.kills;
    episode.in_grace = false;
    episode.reason = decision.reason;
    if (episode.victims.size() < kMaxVictims) {
      episode.victims.push_back({at, victim.name, victim.path, age});
    }
  }
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::same: return "same";
    case Kind::earlier: return "earlier";
    case Kind::later: return "later";
    case Kind::other_victim: return "other-victim";
    case Kind::only_before: return "only-before";
    case Kind::only_after: return "only-after";
    case Kind::spared: return "spared";
    case Kind::killed: return "killed";
    case Kind::neither: return "no-eviction";
  }
  return "";
}

std::vector<EpisodeDifference> compare(const Episodes& before, const Episodes& after) {
  std::vector<EpisodeDifference> differences;
  std::vector<bool> taken(after.all().size(), false);
  for (const Episode& episode : before.all()) {
    const Episode* found = nullptr;
    for (std::size_t i = 0; i < taken.size() && found == nullptr; ++i) {
      const Episode& candidate = after.all()[i];
      if (taken[i] || !is_of_same(episode, candidate) || !overlap(episode, candidate)) continue;
      taken[i] = true;
      found = &candidate;
    }
    differences.push_back(difference_of(&episode, found));
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) differences.push_back(difference_of(nullptr, &after.all()[i]));
  }
  std::ranges::stable_sort(differences, {}, began);
  return differences;
}

}  // namespace forestall::replay
