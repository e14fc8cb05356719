// SPDX-License-Identifier: Apache-2.0
// Sums of amounts that stop at the ends of their type. Configs may name any int64 as a limit, and
// an overflow would turn "never met" into "always met".
#pragma once

#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "model/quantity.h"

namespace forestall::policy {

[[nodiscard]] constexpr Bytes add(Bytes a, Bytes b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a.count, b.count, &sum)) return {sum};
  return {b.count < 0 ? std::numeric_limits<std::int64_t>::min()
                      : std::numeric_limits<std::int64_t>::max()};
}

[[nodiscard]] constexpr Bytes subtract(Bytes a, Bytes b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a.count, b.count, &difference)) return {difference};
  return {b.count > 0 ? std::numeric_limits<std::int64_t>::min()
                      : std::numeric_limits<std::int64_t>::max()};
}

// Of two quantities, at the ends of an __int128. Prints in the format of the first.
[[nodiscard]] constexpr Quantity add(Quantity a, Quantity b) {
  Quantity sum{0, a.format};
  if (!__builtin_add_overflow(a.nanos, b.nanos, &sum.nanos)) return sum;
  sum.nanos =
      b.nanos < 0 ? std::numeric_limits<__int128>::min() : std::numeric_limits<__int128>::max();
  return sum;
}

}  // namespace forestall::policy
