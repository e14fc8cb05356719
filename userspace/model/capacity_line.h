// SPDX-License-Identifier: Apache-2.0
// A line for a signal that no kernel event covers: free space, inodes, tasks. Line is about memory
// in use; this is about what is available, in the signal's own unit.
#pragma once

#include <cstdint>

#include "model/signal.h"

namespace forestall {

struct CapacityLine {
  Signal signal = Signal::nodefs_available;  // of a filesystem, or pid.available
  // Met if less than this is available: the threshold's amount, plus its minimum reclaim while it
  // drives an eviction. Bytes, inodes or tasks.
  std::int64_t met_below = 0;
  std::int64_t available = 0;  // at the observation of the decision

  [[nodiscard]] bool met() const { return available < met_below; }
  friend bool operator==(const CapacityLine&, const CapacityLine&) = default;
};

}  // namespace forestall
