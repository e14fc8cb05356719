// SPDX-License-Identifier: Apache-2.0
// oomd's arithmetic of times, sizes and pressure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "model/rule_observation.h"
#include "rulesets/program.h"

namespace forestall::rulesets {

// Whole seconds that have passed, as oomd compares durations.
[[nodiscard]] std::int64_t seconds_between(std::chrono::nanoseconds from,
                                           std::chrono::nanoseconds to);
[[nodiscard]] std::chrono::nanoseconds seconds_of(std::int64_t seconds);
// Rounded down; exact for all totals.
[[nodiscard]] std::int64_t percent_of(std::int64_t total, std::int64_t percent);
// Nothing: a percentage of an unknown total.
[[nodiscard]] std::optional<std::int64_t> bytes_of(const SizeOrPercent& size,
                                                   std::optional<std::int64_t> total);
// oomd's sum, by which it finds the cgroup under the highest pressure.
[[nodiscard]] float weighted(const PressureLine& line);

}  // namespace forestall::rulesets
