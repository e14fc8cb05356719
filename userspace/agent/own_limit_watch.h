// SPDX-License-Identifier: Apache-2.0
// Responds to workloads near a limit of their own, except by eviction, which the ladder does. Each
// crossing is logged once, and workloads with `response: slow` are throttled.
#pragma once

#include <string>
#include <vector>

#include "actuators/memory_high_throttle.h"
#include "exports/log.h"
#include "model/config.h"
#include "model/decision.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class OwnLimitWatch {
 public:
  OwnLimitWatch(exports::Log& log, actuators::LoopThrottle& throttle)
      : log_(log), throttle_(throttle) {}

  // Logs which workloads are near since the last call and which no longer are. Throttles those that
  // are to be, except in a dry run. True when one is near that was not.
  bool evaluate(const Config& config, const Decision& decision);

 private:
  struct Near {
    CgroupId cgroup;
    std::string path;
    Response response = Response::warn;
  };
  void report(const Evidence& evidence, bool slowed);
  [[nodiscard]] bool may_slow(const Config& config, const Decision& decision,
                              const Evidence& evidence) const;

  exports::Log& log_;
  actuators::LoopThrottle& throttle_;
  std::vector<Near> near_;
};

}  // namespace forestall::agent
