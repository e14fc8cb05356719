// SPDX-License-Identifier: Apache-2.0
// The log lines of an evaluation that has no record: its times, and what rulesets log.
#pragma once

#include "base/clock.h"
#include "exports/log.h"
#include "model/decision.h"
#include "model/record.h"

namespace forestall::agent {

// At the level debug only. The sources are armed by now.
void log_evaluation(exports::Log& log, const Record& record, const Clock& clock);

// A kill has a record. What a ruleset only logs, and what it would kill, has a line.
void log_rulesets(exports::Log& log, const Decision& decision);

}  // namespace forestall::agent
