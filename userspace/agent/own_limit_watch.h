// SPDX-License-Identifier: Apache-2.0
// Responds to workloads near a limit of their own, except by eviction, which the ladder does. Each
// crossing is logged once, and workloads with `response: slow` are throttled.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actuators/memory_high_throttle.h"
#include "exports/log.h"
#include "model/config.h"
#include "model/decision.h"

namespace forestall::agent {

// Base: there is no memory.high, or it must not be used. Such workloads are warned about instead.
class LoopThrottle {
 public:
  LoopThrottle() = default;
  LoopThrottle(const LoopThrottle&) = delete;
  LoopThrottle& operator=(const LoopThrottle&) = delete;
  virtual ~LoopThrottle() = default;

  [[nodiscard]] virtual bool works() const { return false; }
  // From now on these are throttled, and no others.
  virtual void apply(std::vector<actuators::ThrottledCgroup>) {}
  // What could not be set or reset since the last call, and why.
  [[nodiscard]] virtual std::vector<std::string> take_failures() { return {}; }
};

// Throttles by memory.high.
class HighThrottle final : public LoopThrottle {
 public:
  // `throttle` outlives it.
  explicit HighThrottle(actuators::MemoryHighThrottle& throttle) : throttle_(throttle) {}

  [[nodiscard]] bool works() const override { return true; }
  void apply(std::vector<actuators::ThrottledCgroup> wanted) override {
    throttle_.apply(std::move(wanted));
  }
  [[nodiscard]] std::vector<std::string> take_failures() override {
    return throttle_.take_failures();
  }

 private:
  actuators::MemoryHighThrottle& throttle_;
};

// Thread rule: the loop's thread only. What it is made with outlives it.
class OwnLimitWatch {
 public:
  OwnLimitWatch(exports::Log& log, LoopThrottle& throttle) : log_(log), throttle_(throttle) {}

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
  LoopThrottle& throttle_;
  std::vector<Near> near_;
};

}  // namespace forestall::agent
