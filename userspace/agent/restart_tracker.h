// SPDX-License-Identifier: Apache-2.0
// Restarts of units that rulesets requested, and what became of them, for the next observations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actuators/ladder.h"
#include "actuators/unit_restarter.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/kill.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. No call waits.
class RestartTracker {
 public:
  // One that ended is listed for this time, as a kill is (actuators/ladder.h).
  static constexpr Duration kForgetAfter = std::chrono::seconds(30);
  // One without a result is not: its result was dropped.
  static constexpr Duration kLostAfter = std::chrono::minutes(3);

  // Both outlive it.
  RestartTracker(actuators::UnitRestarter& restarter, const Clock& clock)
      : restarter_(restarter), clock_(clock) {}

  // Before the first request(). A failure: each request fails.
  [[nodiscard]] Result<void> start();
  // Does nothing if a restart of the unit is under way.
  void request(const std::string& unit);
  // Drops those that have not begun: they failed.
  void cancel() { restarter_.cancel(); }

  // Those under way and those that ended lately (model/unit_restart.h), the oldest first.
  [[nodiscard]] std::vector<KillProgress> progress();
  // Results since the last call.
  [[nodiscard]] std::vector<actuators::UnitRestartResult> take_results();

 private:
  struct Requested {
    KillProgress progress;
    std::optional<MonotonicTime> ended;
  };

  [[nodiscard]] Requested* under_way(const std::string& unit);
  void collect();
  void note(actuators::UnitRestartResult result);

  actuators::UnitRestarter& restarter_;
  const Clock& clock_;
  std::optional<Error> refusal_;  // of start()
  std::vector<Requested> requested_;
  std::vector<actuators::UnitRestartResult> results_;
};

// Kills and restarts of units, as an observation lists them.
[[nodiscard]] std::vector<KillProgress> kills_and_restarts(const actuators::Ladder& ladder,
                                                           RestartTracker& restarts);

}  // namespace forestall::agent
