// SPDX-License-Identifier: Apache-2.0
// Kills by the loop, the watchdog and the guard: at most one victim for one crossing, and one path
// from each kill to its record.
#pragma once

#include <utility>
#include <vector>

#include "actuators/ladder.h"
#include "actuators/managed_oom_marks.h"
#include "agent/crossing_tracker.h"
#include "agent/guard_controller.h"
#include "agent/kill_request.h"
#include "agent/pending_kills.h"
#include "agent/problem_log.h"
#include "agent/record_reporter.h"
#include "agent/record_writer.h"
#include "agent/restart_tracker.h"
#include "agent/tree_refresher.h"
#include "agent/victim_cache.h"
#include "agent/wake_scheduler.h"
#include "agent/watchdog.h"
#include "base/clock.h"
#include "model/config.h"

namespace forestall::agent {

// What it works with; all of it outlives the controller.
struct KillParts {
  const Clock& clock;
  sources::Observer& observer;
  actuators::Ladder& ladder;
  actuators::ManagedOomMarker& marker;
  LoopWatchdog& watchdog;
  LoopGuard& guard;
  RestartTracker& restarts;
  const VictimCache& victim_cache;
  TreeRefresher& tree;
  WakeScheduler& scheduler;
  RecordReporter& reporter;
  RecordWriter& writer;
  const CrossingTracker& crossings;
  exports::Log& log;
  exports::LoopCounts& counts;
};

// Thread rule: the loop's thread only.
class KillController {
 public:
  explicit KillController(const KillParts& parts)
      : parts_(parts), kills_(parts.ladder, parts.writer, parts.counts), problems_(parts.log) {}

  // Signals every victim of the decision. False: the watchdog was first, nothing is signalled, and
  // the next evaluation comes after a short delay.
  [[nodiscard]] bool signal(const Decision& decision);
  // Records the kills that were signalled so, one record for each victim.
  void record_loop_kills(const Record& evaluated);
  // An evaluation that read all of the node.
  void evaluated(const Record& record) { kills_.evaluated(record); }
  // Kills and records what was started in the cgroup of a pod whose kill has ended. `read` has the
  // workloads there; `victim` is one of them. False: nothing was signalled, and nothing is
  // recorded.
  [[nodiscard]] bool repeat(Observation read, const WorkloadSample& victim);
  // Completes and records what the watchdog or the guard killed since the last call.
  void take_watchdog_kill();
  void take_guard_kills(const Config& config);
  // The ladder's descriptor became readable, or its time came. Returns whether the state of a kill
  // changed.
  bool advance();

  // Hands the watchdog the first of each list, for thresholds that are to be acted upon at once,
  // while no memory is pending release. A threshold does not wait for a restart of a unit, but
  // killLimit counts it.
  void post_orders(const Config& config);
  // After a decision that requested a restart of a unit: the orders were made before it, and the
  // next list brings new ones. They are not posted again from the last list, which a rescan may
  // have found outdated since.
  void restart_requested();
  // Kills and restarts of units, as an observation lists them.
  [[nodiscard]] std::vector<KillProgress> all_kills() const {
    return kills_and_restarts(parts_.ladder, parts_.restarts);
  }
  // The loop has seen a hard threshold met: the watchdog's orders are void.
  void withdraw_if_met(const Decision& decision);

 private:
  [[nodiscard]] bool claim();
  [[nodiscard]] bool claim_guard();
  [[nodiscard]] std::vector<const Workload*> managed_victims(const Decision& decision) const;
  void submit(KillRequest request);
  [[nodiscard]] bool may_complete(const WorkloadSample& victim);

  [[nodiscard]] std::vector<std::pair<CgroupId, KillState>> states() const;

  const KillParts parts_;
  PendingKills kills_;
  ProblemLog problems_;
};

}  // namespace forestall::agent
