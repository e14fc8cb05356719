// SPDX-License-Identifier: Apache-2.0
// Reads a file or a pipe by line. Memory grows with the longest line, not with the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::replay {

class LineReader {
 public:
  // A longer line is an error, so that binary input does not fill memory.
  static constexpr std::size_t kLineMax = std::size_t{256} << 20;

  // "-" is standard input.
  [[nodiscard]] static Result<LineReader> open(const std::string& path);
  explicit LineReader(UniqueFd fd);

  // The next line without its line end, valid until the next call and followed by at least kPadding
  // readable bytes. Nothing at the end of the file.
  [[nodiscard]] Result<std::optional<std::string_view>> next();

  // Number of the last line returned by next(), from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // Whether the file ends without a line end after that line.
  [[nodiscard]] bool unterminated() const { return unterminated_; }

  static constexpr std::size_t kPadding = 64;

 private:
  // Reads more bytes after the present ones. Returns false at the end of the file.
  [[nodiscard]] Result<bool> fill();

  UniqueFd fd_;
  std::string buffer_;     // fully readable; unread bytes are [begin_, end_)
  std::size_t begin_ = 0;  // start of the next line
  std::size_t end_ = 0;
  std::size_t searched_ = 0;  // no line end before this
  std::uint64_t number_ = 0;
  bool unterminated_ = false;
  bool finished_ = false;
};

}  // namespace forestall::replay
