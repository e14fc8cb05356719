// SPDX-License-Identifier: Apache-2.0
// The log line of an evaluation that has no record.
#pragma once

#include "base/clock.h"
#include "exports/log.h"
#include "model/record.h"

namespace forestall::agent {

// At the level debug only. The sources are armed by now.
void log_evaluation(exports::Log& log, const Record& record, const Clock& clock);

}  // namespace forestall::agent
