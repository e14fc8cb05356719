// SPDX-License-Identifier: Apache-2.0
// Thresholds against levels.
#include "policy/thresholds.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "policy/credit.h"
#include "policy/saturating.h"
#include "policy/signals.h"

namespace forestall::policy {
namespace {

// Below this much available the threshold is met: strictly, at the limit nothing is. A threshold
// that was driving asks for its minimum reclaim on top (E/helpers.go thresholdsMet,
// enforceMinReclaim).
Quantity met_below(const Threshold& threshold, std::int64_t capacity, bool was_driving) {
  const Quantity limit = threshold.limit.of(capacity);
  if (!was_driving || !threshold.min_reclaim) return limit;
  return add(limit, threshold.min_reclaim->of(capacity));
}

Evidence compare(const Threshold& threshold, const Subject& subject, const Level& level,
                 Bytes pending, Quantity bound) {
  return Evidence{.threshold = threshold,
                  .subject = std::string(subject.name()),
                  .cgroup = subject.cgroup,
                  .capacity = level.capacity.count,
                  .available = level.available().count,
                  .limit = threshold.limit.of(level.capacity.count),
                  .pending_release = pending.count,
                  .met = decimal(add(level.available(), pending).count) < bound,
                  .at = {},
                  .first_met = {}};
}

std::ptrdiff_t depth(const Evidence& evidence) {
  return std::count(evidence.subject.begin(), evidence.subject.end(), '/');
}

// Order of acting. Watched cgroups come first, the innermost before those around it, because that
// order loses least. A cgroup at its own limit is 1 to 2 ms from an OOM kill inside it (a node
// near its own has a quarter of a second, bench.md observation 1), so somebody in it dies in any
// case; and what is killed in an inner subject is credited to every subject around it, never the
// other way round. Acting on the node first could cost a second victim elsewhere.
// Between cgroups of one depth the one with the least available is the nearest to its end.
// Kubelet's two signals follow in configuration order: both are memory, both are hard
// (kubelet.md §3 step 13; upstream's own order is random).
bool acts_before(const Assessment& assessment, const Crossing& a, const Crossing& b) {
  const Evidence& left = assessment.evidence[a.evidence];
  const Evidence& right = assessment.evidence[b.evidence];
  const bool left_watched = left.threshold.signal == Signal::cgroup_memory_available;
  const bool right_watched = right.threshold.signal == Signal::cgroup_memory_available;
  if (left_watched != right_watched) return left_watched;
  if (!left_watched) return a.id < b.id;
  return std::make_tuple(-depth(left), left.available, a.id, std::string_view(left.subject)) <
         std::make_tuple(-depth(right), right.available, b.id, std::string_view(right.subject));
}

// Moves the met ones to the front and lets the crossings follow.
void put_met_first(Assessment& assessment) {
  std::vector<Evidence> sorted;
  std::vector<std::size_t> place(assessment.evidence.size());
  sorted.reserve(place.size());
  for (const bool met : {true, false}) {
    for (std::size_t i = 0; i < place.size(); ++i) {
      // Moving the evidence out leaves its `met` as it was.
      if (assessment.evidence[i].met != met) continue;
      place[i] = sorted.size();
      sorted.push_back(std::move(assessment.evidence[i]));
    }
  }
  assessment.evidence = std::move(sorted);
  for (Crossing& crossing : assessment.crossings) crossing.evidence = place[crossing.evidence];
}

}  // namespace

Assessment assess(const Config& config, const State& state, const Observation& observation) {
  const Credit credit(observation.kills);
  Assessment assessment;
  assessment.evidence.reserve(config.thresholds.size() + observation.watched.size());
  bool any_met = false;
  for_each_subject(
      config, observation,
      [&](std::size_t index, const Subject& subject, const std::optional<Level>& level) {
        const Threshold& threshold = config.thresholds[index];
        const State::Driving id{index, subject.cgroup};
        const bool was_driving = std::binary_search(state.driving.begin(), state.driving.end(), id);
        if (!level) {
          // Unknown is not over: a series that was under way is still under way.
          if (was_driving) assessment.driving.push_back(id);
          return;
        }
        const Quantity bound = met_below(threshold, level->capacity.count, was_driving);
        assessment.evidence.push_back(
            compare(threshold, subject, *level, credit.of(subject, *level), bound));
        const bool met = assessment.evidence.back().met;
        any_met |= met;
        // A soft threshold waits out its grace period before it drives. Nothing here counts that
        // time yet, so it is shown as met and never drives; it must not act early.
        if (!threshold.hard() || !(decimal(level->available().count) < bound)) return;
        assessment.driving.push_back(id);
        assessment.crossings.push_back({id, assessment.evidence.size() - 1, !met});
      });
  if (any_met) put_met_first(assessment);
  std::sort(assessment.driving.begin(), assessment.driving.end());
  assessment.driving.erase(std::unique(assessment.driving.begin(), assessment.driving.end()),
                           assessment.driving.end());
  std::sort(assessment.crossings.begin(), assessment.crossings.end(),
            [&](const Crossing& a, const Crossing& b) { return acts_before(assessment, a, b); });
  return assessment;
}

}  // namespace forestall::policy
