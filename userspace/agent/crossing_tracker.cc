// SPDX-License-Identifier: Apache-2.0
#include "agent/crossing_tracker.h"

#include <algorithm>

#include "policy/saturating.h"

namespace forestall::agent {
namespace {

const CgroupSample* sample_of(const Observation& observation, CgroupId cgroup) {
  if (observation.pods && observation.pods->id == cgroup) return &*observation.pods;
  const auto found = std::ranges::find(observation.watched, cgroup, &CgroupSample::id);
  return found == observation.watched.end() ? nullptr : &*found;
}

std::optional<Bytes> usage_of(CgroupId cgroup, const Observation& observation) {
  if (cgroup.inode == 0) return observation.node.usage;
  const CgroupSample* sample = sample_of(observation, cgroup);
  return sample == nullptr ? std::nullopt : sample->usage;
}

// Whether a reading of this kind is compared with the threshold.
bool applies(SourceReadings::Measured measured, Signal signal) {
  switch (row_of(signal).measure) {
    case Measure::working_set: return measured != SourceReadings::Measured::not_left;
    case Measure::memory_and_swap: return measured == SourceReadings::Measured::not_left;
    case Measure::swap:
    case Measure::filesystem:
    case Measure::tasks: break;
  }
  return false;
}

// The largest amount at which the threshold would not have been met, all else being equal.
std::optional<Bytes> line_of(SourceReadings::Measured measured, const Evidence& evidence,
                             const Observation& observation) {
  const Bytes limit = policy::subtract(evidence.limit.bytes(), Bytes{evidence.pending_release});
  if (measured != SourceReadings::Measured::usage) {
    return policy::subtract(Bytes{evidence.capacity}, limit);
  }
  const auto usage = usage_of(evidence.cgroup, observation);
  if (!usage) return std::nullopt;
  return policy::add(*usage, policy::subtract(Bytes{evidence.available}, limit));
}

}  // namespace

CrossingTracker::Key CrossingTracker::key_of(const Evidence& evidence) {
  return {evidence.threshold.signal, evidence.cgroup, evidence.limit.value(),
          evidence.threshold.hard()};
}

// The last reading of a source before the crossing, and the first after it.
void CrossingTracker::narrow(const Evidence& evidence, const Observation& observation,
                             State& state) const {
  if (!state.above) return;
  for (const SourceReadings& each : seen_) {
    if (each.cgroup != evidence.cgroup) continue;
    if (!applies(each.measured, evidence.threshold.signal)) continue;
    const auto line = line_of(each.measured, evidence, observation);
    if (!line) continue;
    const bool is_after =
        each.after && each.after->amount > *line && each.after->at >= state.above->at;
    if (is_after && each.after->at < state.below->at) state.below = {each.after->at};
    if (each.before.amount > *line || each.before.at < state.above->at) continue;
    if (each.before.at > state.below->at) continue;
    state.above = {each.before.at};
    // A charge that crossed another line, such as the warning's, is one more reading.
    state.by = each.by == CrossingOrigin::charge && !is_after ? CrossingOrigin::kernel : each.by;
  }
}

void CrossingTracker::evaluated(const Record& record) {
  ++round_;
  for (const Evidence& evidence : record.decision.evidence) {
    if (evidence.threshold.response != Response::evict) continue;
    State& state = thresholds_[key_of(evidence)];
    state.round = round_;
    if (!evidence.met) {
      // This time is before the reading and the one below after it: the crossing is between them.
      state.above = {evidence.at, evidence.available};
      state.below.reset();
      state.by = CrossingOrigin::reading;
    } else if (!state.below) {
      state.below = {std::max(evidence.at, record.stages.observed), evidence.available};
      narrow(evidence, record.observation, state);
    }
  }
  seen_.clear();
  if (record.prepared) return;
  std::erase_if(thresholds_, [&](const auto& each) { return each.second.round != round_; });
}

CrossingBounds CrossingTracker::bounds(const Evidence& evidence, MonotonicTime seen_at) const {
  CrossingBounds bounds;
  bounds.below = {seen_at, evidence.available};
  const auto found = thresholds_.find(key_of(evidence));
  if (found == thresholds_.end()) return bounds;
  const State& state = found->second;
  bounds.above = state.above;
  if (state.below) bounds.below = *state.below;
  bounds.seen = state.by;
  // Another part found it met, and an evaluation since did not: the reading before is unknown.
  if (bounds.above && bounds.above->at > bounds.below.at) bounds.above.reset();
  return bounds;
}

void CrossingTracker::clear() {
  thresholds_.clear();
  seen_.clear();
}

}  // namespace forestall::agent
