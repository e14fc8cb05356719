// SPDX-License-Identifier: Apache-2.0
// What shows whether a cgroup that is throttled by memory.high makes progress (cgroup v2).
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/clock.h"

namespace forestall {

struct ThrottleReading {
  MonotonicTime at;
  Bytes usage;                    // memory.current
  std::uint64_t high_events = 0;  // memory.events.local, "high"
  Duration full_stall{0};         // memory.pressure, "full": total

  friend bool operator==(const ThrottleReading&, const ThrottleReading&) = default;
};

}  // namespace forestall
