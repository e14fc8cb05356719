// SPDX-License-Identifier: Apache-2.0
// An agent without a guard, after a kill by a former guard that it has no report of: no kill until
// that memory had time to return.
#pragma once

#include "agent/guard_controller.h"
#include "base/clock.h"

namespace forestall::agent {

class ReleaseWait final : public LoopGuard {
 public:
  // `clock` outlives it.
  ReleaseWait(const Clock& clock, MonotonicTime until) : clock_(clock), until_(until) {}
  [[nodiscard]] bool claim() override { return !waits(); }
  [[nodiscard]] bool waits() const override { return clock_.now() < until_; }

 private:
  const Clock& clock_;
  const MonotonicTime until_;
};

}  // namespace forestall::agent
