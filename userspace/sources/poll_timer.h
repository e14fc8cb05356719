// SPDX-License-Identifier: Apache-2.0
// The timer of a source that polls.
#pragma once

#include <sys/timerfd.h>

#include <chrono>

#include "base/clock.h"

namespace forestall::sources {

// Arms a timerfd to expire once after `interval`; 0 disarms it.
inline void set_poll_timer(int timer, Duration interval) {
  itimerspec when{};
  when.it_value.tv_sec = interval / std::chrono::seconds(1);
  when.it_value.tv_nsec = (interval % std::chrono::seconds(1)).count();
  ::timerfd_settime(timer, 0, &when, nullptr);
}

}  // namespace forestall::sources
