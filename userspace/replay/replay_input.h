// SPDX-License-Identifier: Apache-2.0
// The observations of a file in time order, and why reading stopped.
//
// Lines are in time order, except records: the agent writes a kill's record when its outcome is
// complete, and again if a stuck victim exits later. Records are sorted within a window, and one
// record per observation counts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "replay/parsed_lines.h"

namespace forestall::replay {

class ReplayInput {
 public:
  // Records in the sorting window.
  static constexpr std::size_t kWindow = 64;

  // "-" is standard input.
  [[nodiscard]] static Result<ReplayInput> open(const std::string& path);

  // The next observation; nothing at the end, and after an error. Errors start with FILE:LINE: or
  // FILE:LINE:COLUMN:.
  [[nodiscard]] Result<std::optional<ParsedLine>> next();

  // An incomplete last line, which is not an error.
  [[nodiscard]] std::optional<std::string> remark() const;

 private:
  ReplayInput(std::string name, ParsedLines parsed)
      : name_(std::move(name)), parsed_(std::move(parsed)) {}
  void fill();
  void order(ParsedLine line);
  [[nodiscard]] Error at_line(std::uint64_t line, const Error& error) const;

  std::string name_;
  ParsedLines parsed_;
  // records by time; an observation is the only or the last element
  std::deque<ParsedLine> window_;
  std::optional<MonotonicTime> last_;
  bool finished_ = false;
  std::optional<Error> failure_;  // reported after the window is empty
};

}  // namespace forestall::replay
