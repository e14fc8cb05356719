// SPDX-License-Identifier: Apache-2.0
// Reads until pread() returns 0. A short read is not the end: seq_file returns /proc/vmstat and
// long cgroup.procs in pieces of its own buffer's size.
#include "kernel/held_file.h"

#include <fcntl.h>
#include <unistd.h>

namespace forestall::kernel {
namespace {

// Enough for memory.stat and for /proc/meminfo on every kernel tested.
constexpr std::size_t kFirstSize = 8192;
constexpr std::size_t kLargest = std::size_t{1} << 20;

ssize_t pread_retrying(int fd, char* at, std::size_t size, std::size_t offset) {
  ssize_t got = 0;
  do {
    got = ::pread(fd, at, size, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

Result<std::string_view> read_whole(int fd, std::string& buffer, std::string_view object) {
  if (buffer.size() < kFirstSize) buffer.resize(kFirstSize);
  std::size_t filled = 0;
  for (;;) {
    const ssize_t got = pread_retrying(fd, buffer.data() + filled, buffer.size() - filled, filled);
    if (got < 0) return errno_error("read", object);
    if (got == 0) return std::string_view(buffer.data(), filled);
    filled += static_cast<std::size_t>(got);
    if (filled < buffer.size()) continue;
    if (buffer.size() >= kLargest) {
      errno = EFBIG;
      return errno_error("read", object);
    }
    buffer.resize(buffer.size() * 2);
  }
}

Result<std::string_view> HeldFile::read_once(std::string& buffer) const {
  if (buffer.size() < kFirstSize) buffer.resize(kFirstSize);
  const ssize_t got = pread_retrying(fd_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno_error("read", name_);
  return std::string_view(buffer.data(), static_cast<std::size_t>(got));
}

Result<HeldFile> HeldFile::open(int directory_fd, const char* file, std::string name) {
  UniqueFd fd(::openat(directory_fd, file, O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", name);
  return HeldFile(std::move(fd), std::move(name));
}

}  // namespace forestall::kernel
