// SPDX-License-Identifier: Apache-2.0
// Exponential back-off with jitter: many nodes that lost the API server at the same time must not
// return to it at the same time.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace forestall::kubernetes {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(800);
  static constexpr Duration kLongest = std::chrono::seconds(30);

  // The delay before the next attempt: from half of the present delay to all of it. `chance` is in
  // [0, 1). Doubles the delay.
  [[nodiscard]] Duration next(double chance) {
    const Duration half = delay_ / 2;
    const auto part = static_cast<Duration::rep>(static_cast<double>(half.count()) *
                                                 std::clamp(chance, 0.0, 1.0));
    delay_ = std::min(delay_ * 2, kLongest);
    return half + Duration(part);
  }
  void reset() { delay_ = kFirst; }

 private:
  Duration delay_ = kFirst;
};

}  // namespace forestall::kubernetes
