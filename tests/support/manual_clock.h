// SPDX-License-Identifier: Apache-2.0
// A clock that a test sets.
#pragma once

#include "base/clock.h"

namespace forestall::test {

class ManualClock final : public Clock {
 public:
  ManualClock() = default;
  explicit ManualClock(MonotonicTime now) : now_(now) {}
  [[nodiscard]] MonotonicTime now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  MonotonicTime now_ = from_ns(1'000'000'000);
};

}  // namespace forestall::test
