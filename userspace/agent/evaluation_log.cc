// SPDX-License-Identifier: Apache-2.0
#include "agent/evaluation_log.h"

#include "exports/log_line.h"

namespace forestall::agent {

using exports::LogLevel;
using exports::LogLine;

void log_evaluation(exports::Log& log, const Record& record, const Clock& clock) {
  if (!log.writes(LogLevel::debug)) return;
  const StageTimes& stages = record.stages;
  log.write(LogLevel::debug, LogLine("evaluation")
                                 .field("wake", to_string(record.observation.wake.source))
                                 .field("reason", to_string(record.decision.reason))
                                 .field("wake_us", stages.woken - stages.crossed)
                                 .field("observe_us", stages.observed - stages.woken)
                                 .field("decide_us", stages.decided - stages.observed)
                                 .field("act_and_arm_us", clock.now() - stages.decided));
}

void log_rulesets(exports::Log& log, const Decision& decision) {
  for (const RuleReport& ruleset : decision.rulesets) {
    const auto line = [&] {
      LogLine begun("ruleset");
      begun.field("ruleset", ruleset.name);
      if (ruleset.group) begun.field("detectors", *ruleset.group);
      return begun;
    };
    for (const std::string& text : ruleset.log) {
      log.write(LogLevel::warning, line().field("text", text));
    }
    for (const RuleActionReport& action : ruleset.actions) {
      for (const RuleAttempt& attempt : action.attempts) {
        if (attempt.outcome != RuleOutcome::dry_run) continue;
        log.write(LogLevel::warning,
                  line().field("action", action.name).field("would_kill", attempt.cgroup));
      }
    }
  }
}

}  // namespace forestall::agent
