// SPDX-License-Identifier: Apache-2.0
// How long the host had been suspended at a past time. A process's start is CLOCK_BOOTTIME, which
// counts a suspend, and a kill's time is CLOCK_MONOTONIC, which does not.
#pragma once

#include <vector>

#include "base/clock.h"

namespace forestall::actuators {

// CLOCK_BOOTTIME - CLOCK_MONOTONIC now, or a little less: how long the host was suspended since its
// boot.
[[nodiscard]] Duration suspended_since_boot();

// Thread rule: one thread.
class SuspendedTimes {
 public:
  // suspended_since_boot() at `now`, in the order of time.
  void note(MonotonicTime now, Duration suspended);
  // At least so long at `then`: less, if the host was suspended between `then` and the last note()
  // before it.
  [[nodiscard]] Duration before(MonotonicTime then) const;

 private:
  struct Seen {
    MonotonicTime first;
    Duration suspended;
  };

  std::vector<Seen> seen_;  // the oldest first
};

}  // namespace forestall::actuators
