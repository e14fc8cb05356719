// SPDX-License-Identifier: Apache-2.0
// How two decisions on the same observation differ.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "model/decision.h"

namespace forestall::replay {

// Names of the two sides: "recorded" and "here", or two file names.
struct Sides {
  std::string before = "recorded";
  std::string after = "here";
  // The first and the last evaluation of each; nothing: both have the same evaluations.
  using Time = std::pair<MonotonicTime, MonotonicTime>;
  std::optional<Time> before_time = std::nullopt;
  std::optional<Time> after_time = std::nullopt;
};

// Another action or another victim. Decisions under different thresholds differ in the threshold's
// limit even if the agent would act in the same way.
[[nodiscard]] bool acts_otherwise(const Decision& a, const Decision& b);

// Both decisions in words, then the first fields that differ. `at`: time of the observation.
[[nodiscard]] std::string difference_text(const Decision& before, const Decision& after,
                                          MonotonicTime at, const Sides& sides);

}  // namespace forestall::replay
