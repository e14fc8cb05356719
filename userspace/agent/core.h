// SPDX-License-Identifier: Apache-2.0
// The agent's core: which event causes an evaluation, and the parts that make it. It has no event
// loop; loop.cc turns descriptors and timers into calls of it.
//
// WakeScheduler decides when to evaluate, TreeRefresher when to rescan, EvaluationRound evaluates,
// KillController kills and records, PreparationController ranks in advance.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/crossing_tracker.h"
#include "agent/evaluation_round.h"
#include "agent/evaluator.h"
#include "agent/evicted_pod_watch.h"
#include "agent/growth_watch.h"
#include "agent/kill_controller.h"
#include "agent/left_behind.h"
#include "agent/loop_pauses.h"
#include "agent/oom_kill_reporter.h"
#include "agent/parts.h"
#include "agent/pod_annotation_reporter.h"
#include "agent/pod_reconciler.h"
#include "agent/preparation_controller.h"
#include "agent/problem_log.h"
#include "agent/record_reporter.h"
#include "agent/record_writer.h"
#include "agent/restart_tracker.h"
#include "agent/rule_effects.h"
#include "agent/tree_refresher.h"
#include "agent/victim_cache.h"
#include "agent/wake_scheduler.h"
#include "model/config.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class Core {
 public:
  Core(Parts parts, Config config);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // First evaluation: finds the workloads, arms every source.
  void start();
  // The loop runs again after a pause in which it was due, or after SIGCONT (`continued`). To be
  // called before anything else.
  void resumed(const LoopPauses::Pause& pause, bool continued);
  // A source's descriptor became readable, or its time came.
  void source_ready(sources::Source& source);
  // The ladder's descriptor became readable.
  void ladder_ready();
  // The ladder has pinned likely victims.
  void pins_ready();
  // Node-level reclaim is over.
  void reclaim_ready();
  // A round of predictions is over.
  void forecast_ready();
  // The watchdog has killed.
  void watchdog_ready();
  // A scan of the cgroup tree is over.
  void tree_ready();
  // What rulesets decide on has been read.
  void rules_ready();
  // A prekill hook has ended.
  void hooks_ready();
  void pressure_ready();
  // The guard in the kernel has reports.
  void guard_ready();
  // A thread has made lists for it.
  void guard_lists_ready();
  // The time that next_due() returned is reached.
  void time_passed();
  // A new configuration, already checked. Takes effect with the evaluation it causes.
  void reload(Config config);

  // When time_passed() must be called at the latest.
  [[nodiscard]] MonotonicTime next_due() const;
  [[nodiscard]] std::uint64_t evaluations() const { return parts_.counts->evaluations; }
  [[nodiscard]] const VictimCache& victim_cache() const { return victim_cache_; }
  [[nodiscard]] std::uint64_t kills() const { return parts_.counts->kills; }
  [[nodiscard]] std::uint64_t dry_run_kills() const { return parts_.counts->dry_run_kills; }
  [[nodiscard]] std::uint64_t kernel_kills() const { return parts_.counts->kernel_oom_kills; }

 private:
  void rescanned();
  void evaluate(WakeSource source);
  void report_order_problems(const std::vector<LoopPredictor::Answer>& answers);
  const Parts parts_;
  Config config_;
  WakeScheduler scheduler_;
  PodAnnotationReporter annotations_;
  CrossingTracker crossings_;
  TreeRefresher tree_;
  GrowthWatch growth_;
  RuleReadings rules_;
  RestartTracker restarts_;
  HookTracker hooks_;
  VictimCache victim_cache_;
  Evaluator evaluator_;
  RecordWriter writer_;
  RecordReporter reporter_;
  KillController kills_;
  EvictedPodWatch evicted_pods_;
  OomKillReporter oom_kills_;
  LeftBehindController left_behind_;
  RuleEffects effects_;
  EvaluationRound round_;
  PreparationController preparation_;
  PodReconciler pods_;
  ProblemLog prediction_problems_;
};

}  // namespace forestall::agent
