// SPDX-License-Identifier: Apache-2.0
#include "kernel/psi_trigger.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>

namespace forestall::kernel {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::array kWindows{milliseconds(500),  milliseconds(1000), milliseconds(2000),
                              milliseconds(4000), milliseconds(6000), milliseconds(8000),
                              milliseconds(10000)};

// The write must include the terminating NUL: the kernel overwrites the last byte (psi_write),
// which would otherwise be the window's last digit.
bool try_window(int fd, Duration threshold, Duration window) {
  const auto request =
      fmt::format("some {} {}", std::chrono::duration_cast<microseconds>(threshold).count(),
                  std::chrono::duration_cast<microseconds>(window).count());
  return ::write(fd, request.c_str(), request.size() + 1) >= 0;
}

}  // namespace

Result<PsiTrigger> open_psi_trigger(int directory_fd, const char* file, std::string_view name,
                                    Duration threshold) {
  UniqueFd fd(::openat(directory_fd, file, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return errno_error("open", name);
  for (const auto window : kWindows) {
    if (try_window(fd.get(), threshold, window)) return PsiTrigger{std::move(fd), window};
    // EINVAL: the window is not permitted, or too short for this kernel. Any other error would
    // repeat with the next window.
    if (errno != EINVAL) break;
  }
  return errno_error("set trigger on", name);
}

}  // namespace forestall::kernel
