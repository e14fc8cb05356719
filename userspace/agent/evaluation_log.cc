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

}  // namespace forestall::agent
