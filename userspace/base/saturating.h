// SPDX-License-Identifier: Apache-2.0
// Differences of numbers from files that are not trusted.
#pragma once

#include <cstdint>
#include <limits>

namespace forestall {

// a - b, or the nearest representable number.
[[nodiscard]] inline std::int64_t saturating_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b > 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

}  // namespace forestall
