// SPDX-License-Identifier: Apache-2.0
#include "support/file_changes.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::test {

namespace {

// inotify is not enough: on Linux 6.18, a process was seen to miss all writes to a file that
// another process had opened before the watch was added.
constexpr std::chrono::milliseconds kLongest(500);

}  // namespace

bool wait_for_files(const std::string& directory, int pidfd, const std::function<bool()>& there,
                    Duration patience) {
  const UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  inotify_add_watch(watch.get(), directory.c_str(), IN_MODIFY | IN_CREATE);
  const MonotonicTime deadline = SystemClock().now() + patience;
  while (!there()) {
    std::array<pollfd, 2> events{{{watch.get(), POLLIN, 0}, {pidfd, POLLIN, 0}}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SystemClock().now());
    if (left.count() <= 0) return there();
    poll(events.data(), events.size(), static_cast<int>(std::min(left, kLongest).count()));
    if (events[1].revents != 0) return there();
    std::array<char, 4096> read_away{};
    while (read(watch.get(), read_away.data(), read_away.size()) > 0) {
    }
  }
  return true;
}

}  // namespace forestall::test
