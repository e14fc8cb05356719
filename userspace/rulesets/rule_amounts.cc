// SPDX-License-Identifier: Apache-2.0
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {

std::int64_t seconds_between(std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
  return std::chrono::duration_cast<std::chrono::seconds>(to - from).count();
}

std::chrono::nanoseconds seconds_of(std::int64_t seconds) {
  return std::chrono::seconds(seconds);
}

std::int64_t percent_of(std::int64_t total, std::int64_t percent) {
  return static_cast<std::int64_t>(static_cast<__int128>(total) * percent / 100);
}

std::optional<std::int64_t> bytes_of(const SizeOrPercent& size, std::optional<std::int64_t> total) {
  if (!size.is_percent) return size.value;
  return total ? std::optional(percent_of(*total, size.value)) : std::nullopt;
}

float weighted(const PressureLine& line) {
  return 3 * line.avg10 + 2 * line.avg60 + line.avg300;
}

}  // namespace forestall::rulesets
