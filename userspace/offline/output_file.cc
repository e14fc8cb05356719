// SPDX-License-Identifier: Apache-2.0
#include "offline/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"

namespace forestall::cli {

Result<void> write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("write", name);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> write_file(const std::string& path, bool force, std::string_view text) {
  struct stat there {};
  if (force && ::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // A device such as /dev/null is opened, not replaced.
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd) return errno_error("open", path);
    return write_all(fd.get(), text, path);
  }
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  UniqueFd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return errno_error("open", beside);
  auto written = write_all(fd.get(), text, beside);
  if (written && ::fsync(fd.get()) != 0) written = errno_error("fsync", beside);
  // link(2) fails if the path exists; rename(2) replaces it.
  Result<void> placed = written;
  if (written && force && ::rename(beside.c_str(), path.c_str()) != 0) {
    placed = errno_error("rename", path);
  } else if (written && !force && ::link(beside.c_str(), path.c_str()) != 0) {
    placed = errno_error("link", path);
  }
  ::unlink(beside.c_str());
  return placed;
}

}  // namespace forestall::cli
