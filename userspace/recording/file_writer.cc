// SPDX-License-Identifier: Apache-2.0
#include "recording/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace forestall::recording {
namespace {

// open() keeps the mode of an existing file, which may admit other users.
Result<void> keep_to_owner(int fd, const std::string& path) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return errno_error("fstat", path);
  if (!S_ISREG(file.st_mode) || (file.st_mode & 077) == 0) return {};
  if (::fchmod(fd, 0600) != 0) return errno_error("fchmod", path);
  return {};
}

}  // namespace

Result<FileWriter> FileWriter::create(int at, const std::string& path, std::string_view facts,
                                      bool overwrite) {
  const int way = overwrite ? O_TRUNC : O_EXCL;
  // O_NONBLOCK: opening a pipe without a reader must not block.
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | way;
  UniqueFd fd(::openat(at, path.c_str(), flags, 0600));
  if (!fd) return errno_error("open", path);
  TRY(keep_to_owner(fd.get(), path));
  FileWriter writer(std::move(fd), path);
  const auto written = writer.append(encode(FileHeader{kMajor, kMinor, std::string(facts)}));
  if (written) return writer;
  if (!overwrite) ::unlinkat(at, path.c_str(), 0);
  return written.error();
}

Result<void> FileWriter::append(std::string_view bytes) {
  std::uint64_t to = offset_;
  while (!bytes.empty()) {
    const ssize_t size = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(to));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      const Error failed = errno_error("write", path_);
      // If truncating fails too, the next attempt overwrites the partial write.
      if (to != offset_ && ::ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0) return failed;
      return failed;
    }
    bytes.remove_prefix(static_cast<std::size_t>(size));
    to += static_cast<std::uint64_t>(size);
  }
  offset_ = to;
  return {};
}

Result<void> FileWriter::write(ChunkBuilder& chunk) {
  const auto sealed = chunk.seal(static_cast<std::uint32_t>(chunks_));
  const ChunkPlace place{offset_, sealed.header.first_ns, sealed.header.last_ns,
                         sealed.header.count, sealed.header.flags};
  TRY(append(sealed.bytes));
  if (chunks_++ < kIndexMax) index_.push_back(place);
  return {};
}

Result<void> FileWriter::sync() {
  if (::fdatasync(fd_.get()) != 0) return errno_error("fdatasync", path_);
  return {};
}

Result<void> FileWriter::append_index() {
  if (chunks_ > kIndexMax) return {};
  const std::uint64_t at = offset_;
  TRY(append(seal_index(index_, static_cast<std::uint32_t>(chunks_))));
  const auto trailer = encode_trailer(at);
  return append({trailer.data(), trailer.size()});
}

Result<void> FileWriter::finish() {
  const auto indexed = append_index();
  // Without space for an index, the decisions already written still have to be synced.
  const auto synced = sync();
  return indexed ? synced : indexed;
}

}  // namespace forestall::recording
