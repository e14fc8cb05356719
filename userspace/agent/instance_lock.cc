// SPDX-License-Identifier: Apache-2.0
#include "agent/instance_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/parse.h"

namespace forestall::agent {
namespace {

std::string holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return "unknown pid";
  return fmt::format("pid {}", trim({text.data(), static_cast<std::size_t>(size)}));
}

}  // namespace

Result<InstanceLock> InstanceLock::take(const std::string& run_directory) {
  std::error_code failure;
  std::filesystem::create_directories(run_directory, failure);
  if (failure) return Error{failure.value(), "mkdir " + run_directory};
  const std::string path = run_directory + "/agent.lock";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return errno_error("open", path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_error("flock", path);
    return Error{EWOULDBLOCK, fmt::format("another agent ({}) holds {}; stop it first, or set "
                                          "another --run-dir",
                                          holder(fd.get()), path)};
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return errno_error("write", path);
  }
  return InstanceLock(std::move(fd));
}

}  // namespace forestall::agent
