// SPDX-License-Identifier: Apache-2.0
#include "agent/oom_kills.h"

#include <algorithm>
#include <utility>

#include "policy/inaction.h"

namespace forestall::agent {
namespace {

// Whether the kernel's own counter of the subject reached its line. All other wakes are hints.
bool is_crossing(WakeSource source) {
  switch (source) {
    case WakeSource::usage_timer:
    case WakeSource::charge:
    case WakeSource::usage_eventfd:
    case WakeSource::high_tripwire:
    case WakeSource::poll: return true;
    default: return false;
  }
}

// A thousand processes may die with one victim: the candidates are recorded with the first.
void drop_candidates(Record& record) {
  record.observation.workloads.reset();
  record.decision.considered.clear();
  record.decision.evictions.clear();
}

}  // namespace

void OomKills::note(const Wake& wake) {
  if (!is_crossing(wake.source)) return;
  if (crossings_.size() == kCrossingsMax) crossings_.pop_front();
  crossings_.push_back({wake.cgroup.value_or(CgroupId{}), wake.at});
}

void OomKills::keep(Record look, const policy::State& state) {
  looks_.push_back({std::move(look), state});
  const MonotonicTime needed = looks_.back().record.stages.decided - kLooksAge;
  // The first one that is old enough stands for all of the time before.
  while (looks_.size() > 1 &&
         (looks_.size() > kLooksMax || looks_[1].record.stages.decided <= needed)) {
    looks_.pop_front();
  }
}

// REQUIRES: there was an evaluation; start() makes one.
const OomKills::Look& OomKills::before(MonotonicTime kill) const {
  const auto found = std::find_if(looks_.rbegin(), looks_.rend(), [&](const Look& look) {
    return look.record.stages.decided <= kill;
  });
  return found == looks_.rend() ? looks_.front() : *found;
}

std::optional<MonotonicTime> OomKills::crossed(const OomKillSighting& kill,
                                               MonotonicTime after) const {
  // No armed line covers a cpuset or a memory policy.
  const bool of_a_cgroup = kill.constraint == Constraint::memcg;
  if (!of_a_cgroup && kill.constraint != Constraint::none) return std::nullopt;
  if (of_a_cgroup && kill.domain.inode == 0) return std::nullopt;
  std::optional<MonotonicTime> first;
  for (const Crossing& each : crossings_) {
    const bool counts = each.cgroup == kill.domain && each.at > after && each.at <= kill.at;
    if (counts && (!first || each.at < *first)) first = each.at;
  }
  return first;
}

void OomKills::tell(const OomKillSighting& kill, const Config& config, std::uint64_t sequence,
                    MonotonicTime now, std::int64_t wall_time_ns) {
  const Look& look = before(kill.at);
  const Observation& observation = look.record.observation;
  const Decision& decision = look.record.decision;
  const auto answer = policy::inaction(config, look.state, observation, decision, kill,
                                       crossed(kill, observation.at));
  Record record = look.record;
  record.sequence = sequence;
  record.wall_time_ns = wall_time_ns - (now - kill.at).count();
  record.oom_kill = OomKill{kill, std::nullopt, answer.inaction, answer.since_crossing};
  record.oom_kill->foresight = foresight_.of(kill);
  if (kill.with_another) drop_candidates(record);
  for (exports::RecordSink* sink : sinks_) sink->write(record);
}

}  // namespace forestall::agent
