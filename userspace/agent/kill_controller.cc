// SPDX-License-Identifier: Apache-2.0
#include "agent/kill_controller.h"

#include <algorithm>
#include <utility>

#include "agent/wall_time.h"
#include "policy/protection.h"
#include "rulesets/managed_rulesets.h"

namespace forestall::agent {
namespace {

// After a kill that was left to the watchdog.
constexpr Duration kWatchdogRetry = std::chrono::milliseconds(10);

// Orders are for a threshold that the loop has not found met. If it found one and did not kill, it
// had a reason not to.
bool is_hard_threshold_met(const Decision& decision) {
  return std::ranges::any_of(decision.evidence, [](const Evidence& evidence) {
    return evidence.first_met && evidence.threshold.hard() &&
           has_usage_line(evidence.threshold.signal);
  });
}

bool is_managed(const Decision& decision) {
  return decision.reason == Reason::ruleset && decision.ruleset &&
         decision.rulesets[*decision.ruleset].name.starts_with(rulesets::kManagedRulesetPrefix);
}

bool is_for_swap(const Decision& decision) {
  return decision.rulesets[*decision.ruleset].name == rulesets::kManagedSwapRuleset;
}

}  // namespace

// The watchdog reports its kill at once, and the next evaluation reads it. If no process was left
// to signal it reports nothing: the retry covers that, because no line was armed.
bool KillController::claim() {
  if (parts_.watchdog.claim()) return true;
  parts_.scheduler.set_retry(parts_.clock.now() + kWatchdogRetry);
  return false;
}

bool KillController::claim_guard() {
  if (parts_.guard.claim()) return true;
  parts_.scheduler.set_retry(parts_.clock.now() + kWatchdogRetry);
  return false;
}

bool KillController::signal(const Decision& decision) {
  const auto managed = managed_victims(decision);
  // Before the claims: while it waits, guard and watchdog are in force.
  for (const Workload* victim : managed) parts_.marker.announce(*victim);
  const bool claimed = claim_guard() && claim();
  const std::vector<CgroupId> killed = claimed ? kills_.signal(decision) : std::vector<CgroupId>{};
  for (const Workload* victim : managed) {
    const bool begun = std::ranges::find(killed, victim->cgroup) != killed.end();
    parts_.marker.mark(
        {*victim, begun ? parts_.ladder.signalled(victim->cgroup) : 0, is_for_swap(decision)});
  }
  return claimed;
}

// Of a kill in systemd-oomd's place, which is marked for PID 1.
std::vector<const Workload*> KillController::managed_victims(const Decision& decision) const {
  std::vector<const Workload*> victims;
  if (parts_.ladder.dry_run() || !is_managed(decision)) return victims;
  for (const Eviction& eviction : decision.evictions) {
    victims.push_back(&decision.considered[eviction.candidate].sample.workload);
  }
  return victims;
}

void KillController::record_loop_kills(const Record& evaluated) {
  for (const Eviction& eviction : evaluated.decision.evictions) {
    const auto& victim = evaluated.decision.considered[eviction.candidate].sample.workload;
    if (kills_.is_repetition(victim.cgroup)) continue;
    KillRequest request;
    request.stages = evaluated.stages;
    request.observation = evaluated.observation;
    // Of thousands of cgroups at worst; the decision shows what counted, and recordings have all.
    request.observation.rules.reset();
    request.decision = evaluated.decision;
    request.decision.evictions = {eviction};
    request.prepared = evaluated.prepared;
    request.crossing = evaluated.crossing;
    submit(std::move(request));
  }
  kills_.collect();  // a dry run, or a victim that is gone already, is complete at once
}

// No crossing is claimed: it is for none.
bool KillController::repeat(Observation read, const WorkloadSample& victim) {
  KillRequest request;
  request.origin = KillOrigin::repetition;
  request.stages.crossed = request.stages.woken = request.stages.observed = read.at;
  request.stages.decided = parts_.clock.now();
  if (!kills_.repeat(victim)) return false;
  request.decision.considered.emplace_back().sample = victim;
  request.decision.conditions = parts_.reporter.conditions();
  request.set_victim(0);
  request.decision.evictions.front().message =
      "A container of the pod was started again after the pod had been killed. ";
  request.observation = std::move(read);
  submit(std::move(request));
  kills_.collect();
  return true;
}

void KillController::take_watchdog_kill() {
  auto request = parts_.watchdog.take_kill();
  if (!request) return;
  submit(std::move(*request));
  kills_.collect();
}

void KillController::take_guard_kills(const Config& config) {
  std::vector<KillRequest> requests = parts_.guard.take_kills(config);
  if (requests.empty()) return;
  // The watchdog's orders were made before these kills. If it acted already, the next evaluation
  // takes its kill.
  static_cast<void>(claim());
  for (KillRequest& request : requests) submit(std::move(request));
  kills_.collect();
}

void KillController::submit(KillRequest request) {
  bool completes = true;
  if (request.signalled) {
    const WorkloadSample& victim = request.victim();
    completes = may_complete(victim);
    // A kill of the same victim is under way, and its record covers this one.
    if (completes && !kills_.complete(victim, *request.signalled)) return;
  }
  if (request.origin == KillOrigin::watchdog) {  // its orders come from the pre-ranked list
    const MonotonicTime at = request.signalled->at;
    if (parts_.victim_cache.ready(at)) request.prepared = parts_.victim_cache.prepared(at);
  }
  // The loop's last reading above the line bounds a crossing that only the watchdog or the guard
  // found.
  if (request.origin != KillOrigin::loop && request.decision.driving) {
    request.crossing = parts_.crossings.bounds(request.decision.evidence[*request.decision.driving],
                                               request.stages.crossed);
  }
  const bool dry_run = !request.signalled && parts_.ladder.dry_run();
  Record record = to_record(std::move(request), wall_time_ns());
  if (!completes) return parts_.reporter.report(record);
  parts_.reporter.set_last(record.decision);
  kills_.keep(std::move(record), dry_run);
}

// The watchdog and the guard signal the processes that were listed, and completing a kill ends
// every process in the victim's cgroup. A protected workload may have come there since the last
// rescan.
bool KillController::may_complete(const WorkloadSample& victim) {
  if (!parts_.tree.has_all_inside(victim.workload)) parts_.tree.refresh();
  Observation around;
  parts_.observer.add_workloads(around, victim.workload.path);
  if (!policy::ProtectedPaths(*around.workloads).protects(victim.workload)) return true;
  problems_.warn(victim.workload.path +
                 ": killed, and not completed: a protected workload has come there since");
  return false;
}

std::vector<std::pair<CgroupId, KillState>> KillController::states() const {
  std::vector<std::pair<CgroupId, KillState>> states;
  for (const KillProgress& kill : parts_.ladder.progress()) {
    states.emplace_back(kill.cgroup, kill.state);
  }
  return states;
}

bool KillController::advance() {
  const auto before = states();
  parts_.ladder.advance();
  kills_.collect();
  return states() != before;
}

void KillController::post_orders(const Config& config) {
  if (config.dry_run || !config.compat.hard_at_once) return;
  // A former guard may fire, and the watchdog cannot end it: both would act on one crossing.
  if (parts_.guard.waits()) return parts_.watchdog.withdraw();
  const auto is_under_way = [](const KillProgress& kill) {
    return kill.state == KillState::in_flight || kill.state == KillState::terminating;
  };
  if (std::ranges::any_of(parts_.ladder.progress(), is_under_way)) {
    return parts_.watchdog.withdraw();
  }
  parts_.watchdog.post(parts_.victim_cache.orders(config, all_kills(), parts_.clock.now()),
                       parts_.victim_cache.valid_until());
}

void KillController::restart_requested() {
  parts_.watchdog.withdraw();
}

void KillController::withdraw_if_met(const Decision& decision) {
  if (is_hard_threshold_met(decision)) parts_.watchdog.withdraw();
}

}  // namespace forestall::agent
