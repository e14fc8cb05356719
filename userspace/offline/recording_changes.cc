// SPDX-License-Identifier: Apache-2.0
#include "offline/recording_changes.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace forestall::cli {
namespace {

constexpr int kCheckEveryMs = 1000;

}  // namespace

RecordingChanges::RecordingChanges(const std::string& path)
    : changes_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  // IN_CREATE: of a segment. Adding a watch fails like the check that replaces it.
  const auto events = IN_MODIFY | IN_CREATE;
  if (changes_ && ::inotify_add_watch(changes_.get(), path.c_str(), events) < 0) changes_.reset();
}

Result<bool> RecordingChanges::wait() {
  // poll() reports an error of standard output without a request for events. It ignores
  // descriptors below 0.
  std::array<pollfd, 2> fds{{{STDOUT_FILENO, 0, 0}, {changes_.get(), POLLIN, 0}}};
  if (::poll(fds.data(), fds.size(), kCheckEveryMs) < 0 && errno != EINTR) {
    return errno_error("poll", "");
  }
  if ((fds[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return false;
  std::array<char, 4096> ignored;
  while (changes_ && ::read(changes_.get(), ignored.data(), ignored.size()) > 0) {
  }
  return true;
}

}  // namespace forestall::cli
