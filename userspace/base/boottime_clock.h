// SPDX-License-Identifier: Apache-2.0
// For what other hosts count too: CLOCK_MONOTONIC stops while the host is suspended.
#pragma once

#include <time.h>

#include "base/clock.h"

namespace forestall {

// CLOCK_BOOTTIME. Its times must not be compared with those of SystemClock.
class BoottimeClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return MonotonicTime(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
  }
};

}  // namespace forestall
