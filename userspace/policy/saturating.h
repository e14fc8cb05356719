// SPDX-License-Identifier: Apache-2.0
// Sums of amounts and times that saturate at the limits of an int64. Configs may have any int64 as
// a limit, and an overflow would turn "never met" into "always met".
#pragma once

#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "base/clock.h"

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

// From `since` to `now`; negative if `since` is later.
[[nodiscard]] constexpr Duration elapsed(MonotonicTime since, MonotonicTime now) {
  return Duration(subtract({to_ns(now)}, {to_ns(since)}).count);
}

[[nodiscard]] constexpr MonotonicTime later(MonotonicTime time, Duration by) {
  return from_ns(add({to_ns(time)}, {by.count()}).count);
}

// A whole number of seconds; an int64 may exceed the range of a Duration.
[[nodiscard]] constexpr Duration whole_seconds(std::int64_t count) {
  std::int64_t nanoseconds = 0;
  if (!__builtin_mul_overflow(count, std::int64_t{1'000'000'000}, &nanoseconds)) {
    return Duration(nanoseconds);
  }
  return count < 0 ? Duration::min() : Duration::max();
}

}  // namespace forestall::policy
