// SPDX-License-Identifier: Apache-2.0
#include "actuators/suspended_times.h"

#include <algorithm>

#include "base/boottime_clock.h"

namespace forestall::actuators {
namespace {

// The two clocks are not read at the same time.
constexpr Duration kJitter = std::chrono::milliseconds(1);
// Suspends that are remembered: a kill is completed within seconds, except after a suspend.
constexpr std::size_t kSeenMax = 16;

}  // namespace

// A pause between the two readings makes the result smaller.
Duration suspended_since_boot() {
  const MonotonicTime boot = BoottimeClock().now();
  return boot - SystemClock().now();
}

void SuspendedTimes::note(MonotonicTime now, Duration suspended) {
  if (!seen_.empty() && suspended <= seen_.back().suspended + kJitter) return;
  if (seen_.size() == kSeenMax) seen_.erase(seen_.begin());
  seen_.push_back({now, suspended});
}

Duration SuspendedTimes::before(MonotonicTime then) const {
  const auto after = std::ranges::upper_bound(seen_, then, {}, &Seen::first);
  return after == seen_.begin() ? Duration::zero() : (after - 1)->suspended;
}

}  // namespace forestall::actuators
