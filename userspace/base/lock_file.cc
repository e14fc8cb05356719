// SPDX-License-Identifier: Apache-2.0
#include "base/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/parse.h"

namespace forestall {
namespace {

std::string holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return "unknown pid";
  return fmt::format("pid {}", trim({text.data(), static_cast<std::size_t>(size)}));
}

// open() keeps owner and mode of an existing file.
Result<void> keep_to_owner(int fd, const std::string& path) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return errno_error("stat", path);
  if (!S_ISREG(file.st_mode)) return error(path + " is not a regular file; remove it");
  if (file.st_uid != ::geteuid()) {
    return error(fmt::format("{} belongs to uid {}; the agent runs as uid {}; remove it", path,
                             file.st_uid, ::geteuid()));
  }
  if ((file.st_mode & 077) != 0 && ::fchmod(fd, 0600) != 0) return errno_error("chmod", path);
  return {};
}

}  // namespace

Result<UniqueFd> lock_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return errno_error("open", path);
  TRY(keep_to_owner(fd.get(), path));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_error("flock", path);
    return Error{EWOULDBLOCK, holder(fd.get())};
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return errno_error("write", path);
  }
  return fd;
}

}  // namespace forestall
