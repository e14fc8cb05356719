// SPDX-License-Identifier: Apache-2.0
// Time as a value. MonotonicTime is CLOCK_MONOTONIC, which bpf_ktime_get_ns() also counts, so that
// kernel and user-space times can be subtracted.
#pragma once

#include <chrono>
#include <cstdint>

namespace forestall {

using Duration = std::chrono::nanoseconds;
using MonotonicTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;

constexpr std::int64_t to_ns(MonotonicTime t) {
  return t.time_since_epoch().count();
}
constexpr MonotonicTime from_ns(std::int64_t ns) {
  return MonotonicTime(Duration(ns));
}
constexpr double to_us(Duration d) {
  return static_cast<double>(d.count()) / 1e3;
}
constexpr double to_ms(Duration d) {
  return static_cast<double>(d.count()) / 1e6;
}

// Injected into code that needs the time, so that tests can set it.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual MonotonicTime now() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }
};

}  // namespace forestall
