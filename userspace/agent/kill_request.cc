// SPDX-License-Identifier: Apache-2.0
#include "agent/kill_request.h"

#include <utility>

namespace forestall::agent {

namespace {

Reason reason_of(KillOrigin origin) {
  switch (origin) {
    case KillOrigin::guard: return Reason::guard_shot;
    case KillOrigin::repetition: return Reason::pod_runs_again;
    case KillOrigin::loop:
    case KillOrigin::watchdog: break;
  }
  return Reason::threshold_met;
}

}  // namespace

void KillRequest::set_crossing(CgroupId subject, Bytes usage, MonotonicTime at) {
  const WakeSource source = origin == KillOrigin::guard ? WakeSource::guard : WakeSource::watchdog;
  observation.wake = {source, at, std::nullopt, usage};
  if (subject != CgroupId{}) observation.wake.cgroup = subject;
  stages.crossed = at;
}

void KillRequest::set_victim(std::size_t candidate) {
  Eviction eviction;
  eviction.candidate = candidate;
  eviction.cause = EvictionCause::threshold;
  eviction.at_once = true;
  decision.evictions = {std::move(eviction)};
}

Record to_record(KillRequest request, std::int64_t wall_time_ns) {
  Record record;
  record.wall_time_ns = wall_time_ns;
  record.observation = std::move(request.observation);
  record.decision = std::move(request.decision);
  record.stages = request.stages;
  record.prepared = request.prepared;
  record.crossing = request.crossing;
  if (request.origin == KillOrigin::loop) return record;
  Decision& decision = record.decision;
  decision.action = Action::kill;
  decision.reason = reason_of(request.origin);
  decision.node_reclaim.clear();
  for (ConditionStatus& status : decision.conditions) status.changed = false;
  return record;
}

}  // namespace forestall::agent
