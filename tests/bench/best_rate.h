// SPDX-License-Identifier: Apache-2.0
// Amount of some work per CPU second.
#pragma once

#include <time.h>

#include <algorithm>

namespace forestall::test {

// CPU time of this process, seconds.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Calls of `work` per CPU second: the best of `slices`, each of at least `seconds` of CPU time,
// because other load can only slow a slice down.
template <typename Work>
double best_rate(int slices, double seconds, Work work) {
  double best = 0;
  for (int slice = 0; slice < slices; ++slice) {
    const double began = cpu_seconds();
    double taken = 0;
    int turns = 0;
    for (; taken < seconds; ++turns) {
      work();
      taken = cpu_seconds() - began;
    }
    best = std::max(best, turns / taken);
  }
  return best;
}

}  // namespace forestall::test
