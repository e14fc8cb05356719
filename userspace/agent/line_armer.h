// SPDX-License-Identifier: Apache-2.0
// Arms every wake source on the lines that the policy computes from an observation.
#pragma once

#include <vector>

#include "agent/problem_log.h"
#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"
#include "sources/source.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. The sources and the log outlive it.
class LineArmer {
 public:
  // `has_usage_events`: see Parts.
  LineArmer(const std::vector<sources::Source*>& sources, bool has_usage_events, exports::Log& log)
      : sources_(sources), has_usage_events_(has_usage_events), problems_(log) {}

  // Returns the lines on memory as they were armed.
  std::vector<Line> arm(const Config& config, const Observation& observation,
                        const Decision& decision, MonotonicTime now);

 private:
  const std::vector<sources::Source*>& sources_;
  const bool has_usage_events_;
  ProblemLog problems_;
};

}  // namespace forestall::agent
