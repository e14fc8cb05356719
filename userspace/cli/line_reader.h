// SPDX-License-Identifier: Apache-2.0
// A file or a pipe, line by line, in memory that grows with the longest line and not with the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::cli {

class LineReader {
 public:
  // Longer lines are an error: whoever feeds something else than lines should not fill memory.
  static constexpr std::size_t kLineMax = std::size_t{256} << 20;

  // "-" is standard input.
  [[nodiscard]] static Result<LineReader> open(const std::string& path);
  explicit LineReader(UniqueFd fd);

  // The next line without its end, valid until the next call, with at least kPadding readable bytes
  // behind it; nothing at the end of the file.
  [[nodiscard]] Result<std::optional<std::string_view>> next();

  // Number of the line that next() returned last, from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // Whether that line ended with the file instead of a line end.
  [[nodiscard]] bool unterminated() const { return unterminated_; }

  static constexpr std::size_t kPadding = 64;

 private:
  // Reads more behind what is there; false at the end of the file.
  [[nodiscard]] Result<bool> fill();

  UniqueFd fd_;
  std::string buffer_;     // all of it is readable; what was read is [begin_, end_)
  std::size_t begin_ = 0;  // of the next line
  std::size_t end_ = 0;
  std::size_t searched_ = 0;  // no line end before this
  std::uint64_t number_ = 0;
  bool unterminated_ = false;
  bool finished_ = false;
};

}  // namespace forestall::cli
