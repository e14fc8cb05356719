// SPDX-License-Identifier: Apache-2.0
// Prekill hooks that rulesets requested, and what became of them, for the next observations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actuators/hook_runner.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/hook.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. No call waits.
class HookTracker {
 public:
  // One that ended is listed for this time, as a kill is (actuators/ladder.h).
  static constexpr Duration kForgetAfter = std::chrono::seconds(30);
  // One without a result at its end has none after this time either: its result was dropped.
  static constexpr Duration kLostAfter = std::chrono::seconds(5);

  // Both outlive it.
  HookTracker(actuators::HookRunner& runner, const Clock& clock) : runner_(runner), clock_(clock) {}

  // Before the first request(). A failure: each request is refused.
  [[nodiscard]] Result<void> start();
  void request(actuators::HookRequest request, const std::string& cgroup,
               const std::string& ruleset);
  // Ends all and forgets them: their numbers may be used again.
  void cancel();
  // Ends and forgets those of rulesets that are no longer in force.
  void keep_only(const std::function<bool(const std::string& ruleset)>& is_in_force);

  // Those that run and those that ended lately, the oldest first.
  [[nodiscard]] std::vector<HookProgress> progress();
  // Those that ended since the last call.
  [[nodiscard]] std::vector<HookProgress> take_ended();

 private:
  struct Requested {
    HookProgress progress;
    std::string ruleset;
    MonotonicTime until;
    std::optional<MonotonicTime> ended;
  };

  void collect();
  void end(Requested& requested, const actuators::HookResult& result);

  actuators::HookRunner& runner_;
  const Clock& clock_;
  std::optional<Error> refusal_;  // of start()
  std::vector<Requested> requested_;
  std::vector<HookProgress> ended_;
};

}  // namespace forestall::agent
