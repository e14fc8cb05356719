// SPDX-License-Identifier: Apache-2.0
// Sums of amounts that stop at the ends of an int64. Configs may name any int64 as a limit, and an
// overflow would turn "never met" into "always met".
#pragma once

#include <cstdint>
#include <limits>

#include "base/bytes.h"

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

}  // namespace forestall::policy
