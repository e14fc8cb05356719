// SPDX-License-Identifier: Apache-2.0
#include "replay/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace forestall::replay {
namespace {

constexpr std::size_t kFirstSize = std::size_t{1} << 20;

}  // namespace

Result<LineReader> LineReader::open(const std::string& path) {
  const bool standard = path == "-";
  const int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                          : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error("open", standard ? "standard input" : path);
  return LineReader(UniqueFd(fd));
}

LineReader::LineReader(UniqueFd fd) : fd_(std::move(fd)), buffer_(kFirstSize + kPadding, '\0') {}

Result<std::optional<std::string_view>> LineReader::next() {
  unterminated_ = false;
  for (;;) {
    const char* const from = buffer_.data() + searched_;
    if (const void* found = std::memchr(from, '\n', end_ - searched_)) {
      const std::size_t stop =
          searched_ + static_cast<std::size_t>(static_cast<const char*>(found) - from);
      const auto line = std::string_view(buffer_).substr(begin_, stop - begin_);
      begin_ = searched_ = stop + 1;
      ++number_;
      return std::optional(line);
    }
    searched_ = end_;
    if (finished_ || !TRY(fill())) break;
  }
  finished_ = true;
  if (begin_ == end_) return std::optional<std::string_view>();
  const auto line = std::string_view(buffer_).substr(begin_, end_ - begin_);
  begin_ = end_;
  ++number_;
  unterminated_ = true;
  return std::optional(line);
}

Result<bool> LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    searched_ -= begin_;
    begin_ = 0;
  }
  if (end_ + kPadding == buffer_.size()) {
    if (end_ >= kLineMax) return error("a line is longer than 256 MiB");
    buffer_.resize(2 * end_ + kPadding);
  }
  ssize_t size = 0;
  do {
    size = ::read(fd_.get(), buffer_.data() + end_, buffer_.size() - kPadding - end_);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return errno_error("read", "line " + std::to_string(number_ + 1));
  end_ += static_cast<std::size_t>(size);
  return size > 0;
}

}  // namespace forestall::replay
