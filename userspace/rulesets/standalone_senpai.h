// SPDX-License-Identifier: Apache-2.0
// The algorithm of the standalone senpai: one cgroup, whose memory.high follows its pressure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/rule_observation.h"
#include "rulesets/decision.h"

namespace forestall::rulesets {

struct StandaloneSenpai {
  std::string cgroup;
  std::int64_t min_size = 100LL << 20;
  std::int64_t max_size = 100LL << 30;
  std::int64_t interval = 6;      // evaluations
  std::int64_t pressure = 10000;  // microseconds
  double max_probe = 0.01;
  double max_backoff = 1.0;
  double coeff_probe = 10;
  double coeff_backoff = 20;
};

// Nothing before the first evaluation, and after one at which a reading was missing.
struct StandaloneSenpaiState {
  std::int64_t limit = 0;  // as last written
  std::int64_t last_total = 0;
  std::int64_t integral = 0;
  std::int64_t grace = 0;
};

// The write to memory.high, if there is one.
[[nodiscard]] std::optional<RuleWrite> step(const StandaloneSenpai& config,
                                            std::optional<StandaloneSenpaiState>& state,
                                            const RuleObservation& observed);

}  // namespace forestall::rulesets
