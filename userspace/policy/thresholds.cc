// SPDX-License-Identifier: Apache-2.0
#include "policy/thresholds.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "policy/containerfs.h"
#include "policy/credit.h"
#include "policy/node_reclaim.h"
#include "policy/quantity_sum.h"
#include "policy/saturating.h"
#include "policy/signals.h"

namespace forestall::policy {
namespace {

// The threshold is met if strictly less than this is available. A driving threshold adds its
// minimum reclaim (pkg/kubelet/eviction/helpers.go thresholdsMet, enforceMinReclaim).
Quantity met_below(const Threshold& threshold, std::int64_t capacity, bool was_driving) {
  const Quantity limit = threshold.limit.of(capacity);
  if (!was_driving || !threshold.min_reclaim) return limit;
  return sum(limit, threshold.min_reclaim->of(capacity));
}

Evidence compare(const Threshold& threshold, const Subject& subject, const SignalState& signal,
                 Bytes pending, const Quantity& bound) {
  return {.threshold = threshold,
          .subject = std::string(subject.name()),
          .cgroup = subject.cgroup,
          .capacity = signal.capacity,
          .available = signal.available,
          .limit = threshold.limit.of(signal.capacity),
          .pending_release = pending.count,
          .met = decimal(add(Bytes{signal.available}, pending).count) < bound,
          .at = signal.at,
          .first_met = std::nullopt,
          .driving = false};
}

// One pass over all thresholds and their subjects.
class Assessor {
 public:
  Assessor(const State& before, const Observation& observation, Assessment& assessment)
      : before_(before),
        now_(observation.at),
        credit_(observation.kills),
        assessment_(assessment),
        next_(assessment.state) {}

  void operator()(std::size_t index, const Threshold& threshold, const Subject& subject,
                  const std::optional<SignalState>& signal) {
    const ThresholdId id{index, subject.cgroup};
    if (!signal) {
      keep(id, threshold.signal);
      return;
    }
    const Quantity bound = met_below(threshold, signal->capacity, was_driving(id));
    assessment_.computed = true;
    // Thousands of workloads may be far from their own limits; evidence on those is of no use.
    const bool is_met = decimal(signal->available) < bound;
    if (threshold.own_limits_of && !is_met) return;
    const Bytes pending = signal->level ? credit_.of(subject, *signal->level) : Bytes{0};
    assessment_.evidence.push_back(compare(threshold, subject, *signal, pending, bound));
    const bool newer = remember(threshold.signal, subject.cgroup, signal->at, is_met);
    if (is_met) {
      note_met(id, newer);
    } else if (next_.reclaim && next_.reclaim->done && next_.reclaim->id == id) {
      assessment_.crossings.push_back({id, assessment_.evidence.size() - 1, false, true, true});
    }
  }

 private:
  bool was_driving(const ThresholdId& id) const {
    return std::binary_search(before_.driving.begin(), before_.driving.end(), id);
  }

  std::optional<MonotonicTime> met_since(const ThresholdId& id) const {
    const auto found = std::lower_bound(
        before_.met.begin(), before_.met.end(), id,
        [](const State::Met& met, const ThresholdId& other) { return met.id < other; });
    if (found == before_.met.end() || found->id != id) return std::nullopt;
    return found->since;
  }

  std::optional<MonotonicTime> watched_at(CgroupId cgroup) const {
    for (const ReadingTimes::Watched& watched : before_.read.watched) {
      if (watched.cgroup == cgroup) return watched.at;
    }
    return std::nullopt;
  }

  // An unknown signal does not end anything: thresholds that were met or driving stay so.
  void keep(const ThresholdId& id, Signal signal) {
    if (const auto since = met_since(id)) next_.met.push_back({id, *since});
    if (was_driving(id)) next_.driving.push_back(id);
    if (!is_of_watched_cgroup(signal)) return;
    if (const auto at = watched_at(id.cgroup)) next_.read.watched.push_back({id.cgroup, *at});
  }

  // Whether the signal was read again since the last step evaluated it, or for the first time.
  bool remember(Signal signal, CgroupId cgroup, MonotonicTime at, bool met) {
    if (is_of_watched_cgroup(signal)) {
      if (met) next_.read.watched.push_back({cgroup, at});
      const auto before = watched_at(cgroup);
      return !before || at > *before;
    }
    const auto slot = static_cast<std::size_t>(signal);
    next_.read.node[slot] = at;
    const auto& before = before_.read.node[slot];
    return !before || at > *before;
  }

  void note_met(const ThresholdId& id, bool newer) {
    Evidence& evidence = assessment_.evidence.back();
    const MonotonicTime since = std::min(met_since(id).value_or(now_), now_);
    next_.met.push_back({id, since});
    evidence.first_met = since;
    if (const auto condition = condition_of(evidence.threshold.signal)) {
      assessment_.pressure[static_cast<std::size_t>(*condition)] = true;
    }
    if (elapsed(since, now_) < evidence.threshold.grace) return;
    evidence.driving = true;
    next_.driving.push_back(id);
    if (evidence.threshold.response != Response::evict) return;
    // While node-level reclaim runs for the threshold, its pass is not over.
    const bool same_pass = next_.reclaim && next_.reclaim->id == id;
    assessment_.crossings.push_back(
        {id, assessment_.evidence.size() - 1, !evidence.met, newer || same_pass, false});
  }

  const State& before_;
  const MonotonicTime now_;
  const Credit credit_;
  Assessment& assessment_;
  State& next_;
};

std::ptrdiff_t depth(const Evidence& evidence) {
  return std::count(evidence.subject.begin(), evidence.subject.end(), '/');
}

// Memory first (pkg/kubelet/eviction/helpers.go byEvictionPriority), then hard before soft.
std::pair<bool, bool> urgency(const Evidence& evidence) {
  return {resource_of(evidence.threshold.signal) != Resource::memory, !evidence.threshold.hard()};
}

// The order of acting. At equal urgency, watched cgroups come before the node and the innermost
// cgroup before its ancestors, because that order costs the fewest victims. A cgroup at its own
// limit is 1 to 2 ms from an OOM kill inside it; a node near its limit has a quarter of a second
// (measured). So one of the cgroup's processes dies in any case. A kill in an inner subject is
// credited to all of its ancestors but not the reverse: acting on the node first could cost a
// second victim elsewhere. Of cgroups at one depth, the one with the least available comes first.
// Kubelet's signals follow in configuration order; kubelet's own order is random.
bool acts_before(const Assessment& assessment, const Crossing& a, const Crossing& b) {
  const Evidence& left = assessment.evidence[a.evidence];
  const Evidence& right = assessment.evidence[b.evidence];
  if (urgency(left) != urgency(right)) return urgency(left) < urgency(right);
  const bool left_watched = is_of_watched_cgroup(left.threshold.signal);
  const bool right_watched = is_of_watched_cgroup(right.threshold.signal);
  if (left_watched != right_watched) return left_watched;
  if (!left_watched) return a.id < b.id;
  return std::make_tuple(-depth(left), left.available, a.id, std::string_view(left.subject)) <
         std::make_tuple(-depth(right), right.available, b.id, std::string_view(right.subject));
}

// Moves met evidence to the front and updates the indices in the crossings.
void put_met_first(Assessment& assessment) {
  std::vector<Evidence> sorted;
  std::vector<std::size_t> place(assessment.evidence.size());
  sorted.reserve(place.size());
  for (const bool met : {true, false}) {
    for (std::size_t i = 0; i < place.size(); ++i) {
      // `met` is still valid after the move.
      if (assessment.evidence[i].met != met) continue;
      place[i] = sorted.size();
      sorted.push_back(std::move(assessment.evidence[i]));
    }
  }
  assessment.evidence = std::move(sorted);
  for (Crossing& crossing : assessment.crossings) crossing.evidence = place[crossing.evidence];
}

// A cgroup that the observation lists twice counts once.
void tidy(State& state) {
  const auto id = [](const State::Met& met) { return met.id; };
  std::sort(state.met.begin(), state.met.end(),
            [&](const State::Met& a, const State::Met& b) { return id(a) < id(b); });
  state.met.erase(
      std::unique(state.met.begin(), state.met.end(),
                  [&](const State::Met& a, const State::Met& b) { return id(a) == id(b); }),
      state.met.end());
  std::sort(state.driving.begin(), state.driving.end());
  state.driving.erase(std::unique(state.driving.begin(), state.driving.end()), state.driving.end());
}

}  // namespace

Assessment assess(const Config& config, const State& state, const Observation& observation) {
  const InForce in_force = policy::in_force(config, state, observation);
  Assessment assessment;
  State& next = assessment.state;
  next.at = observation.at;
  next.layout = in_force.layout;
  next.derived = in_force.derived;
  next.read.node = state.read.node;
  next.conditions = state.conditions;
  next.reclaim = taken_up(state.reclaim, observation.reclaim);
  assessment.evidence.reserve(config.thresholds.size() + observation.watched.size());
  DerivedInForce derived{.only_replacements = in_force.only_replacements};
  if (in_force.derived) derived.thresholds = *in_force.derived;
  for_each_subject(config, observation, Assessor(state, observation, assessment), derived);
  if (std::any_of(assessment.evidence.begin(), assessment.evidence.end(),
                  [](const Evidence& evidence) { return evidence.met; })) {
    put_met_first(assessment);
  }
  tidy(next);
  std::sort(assessment.crossings.begin(), assessment.crossings.end(),
            [&](const Crossing& a, const Crossing& b) { return acts_before(assessment, a, b); });
  return assessment;
}

}  // namespace forestall::policy
