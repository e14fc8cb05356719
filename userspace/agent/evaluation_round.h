// SPDX-License-Identifier: Apache-2.0
// One evaluation from its wake to the armed sources: reads and decides (evaluator.h), signals,
// arms, reports. After a kill the next decision follows at once, with that kill credited, because
// another subject may be short too: a slow victim never holds up the next decision.
#pragma once

#include "agent/crossing_tracker.h"
#include "agent/evaluator.h"
#include "agent/growth_watch.h"
#include "agent/kill_controller.h"
#include "agent/left_behind.h"
#include "agent/line_armer.h"
#include "agent/oom_kill_reporter.h"
#include "agent/own_limit_watch.h"
#include "agent/parts.h"
#include "agent/pod_annotation_reporter.h"
#include "agent/record_reporter.h"
#include "agent/rule_effects.h"
#include "agent/tree_refresher.h"
#include "agent/victim_cache.h"
#include "agent/wake_scheduler.h"
#include "model/config.h"
#include "model/record.h"

namespace forestall::agent {

// What it works with; all of it outlives the round.
struct RoundParts {
  const Parts& agent;
  const Config& config;  // in force
  WakeScheduler& scheduler;
  TreeRefresher& tree;
  GrowthWatch& growth;
  VictimCache& victim_cache;
  Evaluator& evaluator;
  CrossingTracker& crossings;
  RecordReporter& reporter;
  KillController& kills;
  OomKillReporter& oom_kills;
  LeftBehindController& left_behind;
  RuleEffects& effects;
  const PodAnnotationReporter& annotations;
};

// Thread rule: the loop's thread only.
class EvaluationRound {
 public:
  explicit EvaluationRound(const RoundParts& parts)
      : parts_(parts),
        lines_(parts.agent.sources, parts.agent.has_usage_events, parts.agent.log),
        own_limits_(parts.agent.log, parts.agent.throttle) {}

  // Evaluates. After a kill another evaluation is due at once; the loop begins it.
  void run(const Wake& wake);

 private:
  [[nodiscard]] bool decide_some(const Wake& wake, MonotonicTime woken);
  [[nodiscard]] bool decide(const Wake& wake, MonotonicTime woken);
  [[nodiscard]] Record evaluate(const Wake& wake, MonotonicTime woken);
  [[nodiscard]] bool signal(const Decision& decision);
  void note_crossings(Record& record);
  void start_reclaim(const Decision& decision);
  void arm(const Record& record);
  void report(Record record);
  [[nodiscard]] bool report_complete(Record& record);

  const RoundParts parts_;
  LineArmer lines_;
  OwnLimitWatch own_limits_;
  int kills_in_a_row_ = 0;  // evaluations with a kill, each right after the other
};

}  // namespace forestall::agent
