// SPDX-License-Identifier: Apache-2.0
// Failures in a row are followed by a pause without tries. Its length is a multiple of the time
// that they took, so that tries that fail take at most a fixed share of the time.
#pragma once

#include "base/clock.h"

namespace forestall::kernel {

class FailurePause {
 public:
  // `times`: the pause is so many times as long as the failures took.
  constexpr FailurePause(int failures_max, int times)
      : failures_max_(failures_max), times_(times) {}

  [[nodiscard]] bool over(MonotonicTime now) const { return now >= until_; }
  void succeeded() {
    failures_ = 0;
    spent_ = Duration::zero();
  }
  // A try from `began` to `now`.
  void failed(MonotonicTime began, MonotonicTime now) {
    spent_ += now - began;
    if (++failures_ < failures_max_) return;
    until_ = now + times_ * spent_;
    succeeded();
  }

 private:
  const int failures_max_;
  const int times_;
  int failures_ = 0;  // since the last success or pause
  Duration spent_{};  // on them
  MonotonicTime until_ = MonotonicTime::min();
};

}  // namespace forestall::kernel
