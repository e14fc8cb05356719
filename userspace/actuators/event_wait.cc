// SPDX-License-Identifier: Apache-2.0
#include "actuators/event_wait.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace forestall::actuators {

void wait_for_event(int eventfd, std::optional<MonotonicTime> due, int other) {
  timespec timeout{};
  if (due) {
    const auto left = std::max(*due - SystemClock().now(), Duration{0});
    timeout.tv_sec = static_cast<time_t>(left / std::chrono::seconds(1));
    timeout.tv_nsec = static_cast<long>((left % std::chrono::seconds(1)).count());
  }
  std::array<pollfd, 2> awaited{pollfd{eventfd, POLLIN, 0}, pollfd{other, POLLIN, 0}};
  // A failure, EINTR: the caller's next iteration finds nothing to do.
  if (::ppoll(awaited.data(), awaited.size(), due ? &timeout : nullptr, nullptr) <= 0) return;
  if (awaited[0].revents == 0) return;
  eventfd_t ignored = 0;
  ::eventfd_read(eventfd, &ignored);
}

}  // namespace forestall::actuators
