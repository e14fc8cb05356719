// SPDX-License-Identifier: Apache-2.0
// The core beside a look: deciding on what was made ready, sharing that with the watchdog and the
// guard, and telling who records what the policy was told and what it was not.
#include "agent/core.h"

#include <algorithm>
#include <utility>

#include "policy/protection.h"

namespace forestall::agent {
namespace {

// Without one, it is walked for each new list of who is next, and the list is no good for longer
// than this: whoever came since is not on it.
constexpr Duration kTreeAgeUntold = std::chrono::milliseconds(1500);

// After a kill that was left to the watchdog.
constexpr Duration kSecondHold = std::chrono::milliseconds(10);

}  // namespace

// Whether a workload that came of late would be known: it may be one the policy protects, in the
// midst of a listed one. A change that was told is walked for before anybody is chosen, however
// short ago the last walk was.
bool Core::knows_workloads(MonotonicTime now) const {
  if (tree_changed_) return false;
  return parts_.told_of_cgroups || now - refreshed_at_ < kTreeAgeUntold;
}

// The state stays as it was: the step saw a part of the world only, and the look that follows the
// kill takes it all in.
bool Core::decide_prepared(const Wake& wake, Record& record) {
  const MonotonicTime now = parts_.clock->now();
  if (!readiness_.ready(now) || !knows_workloads(now)) return false;
  const auto watched = readiness_.watched();
  // A crossing of somebody else's.
  const CgroupId about = wake.cgroup.value_or(CgroupId{});
  if (wake.usage && std::ranges::find(watched, about) == watched.end()) return false;
  // What is still to come back is read before what is there. Memory that a victim returns between
  // the two then counts twice, for this one look; the other way round it would count for nothing,
  // and cost another workload its life.
  auto kills = parts_.ladder->progress();
  Observation observation = parts_.observer->glance(wake, now, watched);
  observation.kills = std::move(kills);
  auto answer = policy::step(config_, state_, observation);
  if (answer.decision.action != Action::inspect) return false;
  readiness_.offer(observation);
  parts_.observer->resample_workloads(observation);
  growth_.apply(*observation.workloads);
  const MonotonicTime observed = parts_.clock->now();
  answer = policy::step(config_, state_, observation);
  if (answer.decision.action != Action::kill || !readiness_.vouches_for(answer.decision)) {
    return false;
  }
  for (ConditionStatus& status : answer.decision.conditions) status.changed = false;
  record.stages.observed = observed;
  record.prepared = readiness_.prepared(now);
  record.observation = std::move(observation);
  record.decision = std::move(answer.decision);
  return true;
}

// That the policy was asked is so whatever became of its answer.
void Core::tell_pass(const Record& record) {
  const policy::State& before = record.prepared ? state_ : before_;
  for (exports::RecordSink* sink : parts_.sinks) {
    sink->passed({config_, reloads_, before, record});
  }
}

// What workloads use while nobody asks: whoever replays under another policy will.
void Core::survey(MonotonicTime now) {
  const auto wants = [&](exports::RecordSink* sink) { return sink->wants_survey(now); };
  if (std::ranges::none_of(parts_.sinks, wants)) return;
  const MonotonicTime began = parts_.clock->now();
  Observation read;
  parts_.observer->add_workloads(read, {}, sources::kUnscored);
  if (!read.workloads) return;  // they could not be read
  growth_.apply(*read.workloads);
  const Duration took = parts_.clock->now() - began;
  for (exports::RecordSink* sink : parts_.sinks) sink->surveyed({began, took, *read.workloads});
}

// False: the watchdog was first, and tells of it at once: then the look is taken again. If nobody
// was left to shoot, it tells nothing; so the look is taken again without a word of it, too, since
// no line was armed.
bool Core::may_signal() {
  if (parts_.watchdog == nullptr || parts_.watchdog->claim()) return true;
  hold_until_ = parts_.clock->now() + kSecondHold;
  return false;
}

// Orders are for a threshold that the loop has not seen met. One that it saw, and did not kill for,
// is in good hands.
void Core::take_charge(const Decision& decision) {
  const bool met = std::ranges::any_of(decision.evidence, [](const Evidence& evidence) {
    return evidence.first_met && evidence.threshold.hard() &&
           has_usage_line(evidence.threshold.signal);
  });
  if (met && parts_.watchdog != nullptr) parts_.watchdog->withdraw();
}

void Core::watchdog_ready() {
  look(Wake{WakeSource::watchdog, parts_.clock->now(), {}, {}});
}

// Others shot the processes that were listed, and completing a kill ends all that is in the
// victim's cgroup by now. While we slept somebody protected may have come there, of which nobody
// told us yet.
bool Core::may_complete(const WorkloadSample& victim) {
  refresh();
  Observation around;
  parts_.observer->add_workloads(around, victim.workload.path);
  if (!policy::ProtectedPaths(*around.workloads).spares(victim.workload)) return true;
  const std::string problem =
      victim.workload.path + ": shot, and not completed: somebody protected has come there since";
  parts_.log->write(exports::LogLevel::warning, exports::LogLine("note").field("problem", problem));
  return false;
}

// What was done in our stead: its memory is on its way, and its record is ours to write.
void Core::take_shot() {
  if (parts_.watchdog == nullptr) return;
  auto shot = parts_.watchdog->take_shot();
  if (!shot) return;
  const WorkloadSample& victim = shot->order.victim.sample;
  const bool completed = may_complete(victim);
  if (completed) kills_.complete(victim, {shot->at, shot->processes, shot->victim_usage});
  Record record = to_record(*shot);
  if (readiness_.ready(shot->at)) record.prepared = readiness_.prepared(shot->at);
  record.wall_time_ns = wall_time_ns();
  if (completed) return tell_kills(std::move(record));
  record.sequence = ++sequence_;
  report(record);
}

// What the guard shot is ours to complete.
void Core::guard_ready() {
  const MonotonicTime woken = parts_.clock->now();
  std::vector<GuardKeeper::Shot> shots = parts_.guard->take_shots();
  // Orders were given without knowing of it. If the thread was first, the look tells of it.
  if (!shots.empty()) static_cast<void>(may_signal());
  for (auto& [record, signalled] : shots) {
    const Decision& decision = record.decision;
    const WorkloadSample& victim = decision.considered[*decision.victim()].sample;
    record.wall_time_ns = wall_time_ns();
    if (!may_complete(victim)) {
      record.sequence = ++sequence_;
      report(record);
    } else if (kills_.complete(victim, signalled)) {
      tell_kills(std::move(record));
    }  // else we killed it as well, in a look that was under way
  }
  look(Wake{WakeSource::guard, woken, {}, {}});
}

// Only for what would be killed at once, and only while nothing is on its way that the policy would
// count first.
void Core::post_orders() {
  if (parts_.watchdog == nullptr || config_.dry_run || !config_.compat.hard_at_once) return;
  const auto is_under_way = [](const KillProgress& kill) {
    return kill.state == KillState::in_flight || kill.state == KillState::terminating;
  };
  if (std::ranges::any_of(parts_.ladder->progress(), is_under_way)) {
    return parts_.watchdog->withdraw();
  }
  parts_.watchdog->post(readiness_.orders(), readiness_.good_until());
}

}  // namespace forestall::agent
