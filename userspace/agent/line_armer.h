// SPDX-License-Identifier: Apache-2.0
// Arms every wake source on the lines that the policy computes from an observation.
#pragma once

#include <optional>
#include <vector>

#include "agent/problem_log.h"
#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"
#include "sources/source.h"

namespace forestall::agent {

struct ArmedLines {
  std::vector<Line> lines;  // on memory
  // How far the nearest line is that a hint of pressure may be the first sign of. Nullopt: none,
  // the kernel reports each line and each one is far.
  std::optional<Bytes> hint_headroom;
};

// Thread rule: the loop's thread only. The sources and the log outlive it.
class LineArmer {
 public:
  // `has_usage_events`: see Parts.
  LineArmer(const std::vector<sources::Source*>& sources, bool has_usage_events, exports::Log& log)
      : sources_(sources), has_usage_events_(has_usage_events), problems_(log) {}

  ArmedLines arm(const Config& config, const Observation& observation, const Decision& decision,
                 MonotonicTime now);

 private:
  const std::vector<sources::Source*>& sources_;
  const bool has_usage_events_;
  ProblemLog problems_;
};

}  // namespace forestall::agent
