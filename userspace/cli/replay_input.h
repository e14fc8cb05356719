// SPDX-License-Identifier: Apache-2.0
// The observations of a file in the order of time, which is that of its lines; and why there are no
// more.
//
// Records are the exception: the agent writes a kill's when its outcome is complete, after what it
// decided meanwhile, and again if a stuck victim is gone after all. They are put back into order
// within a window, and of several on the same observation one counts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "cli/parsed_lines.h"

namespace forestall::cli {

class ReplayInput {
 public:
  // So many records are held back to be ordered.
  static constexpr std::size_t kWindow = 64;

  // "-" is standard input.
  [[nodiscard]] static Result<ReplayInput> open(const std::string& path);

  // The next observation; nothing at the end. After an error, worded FILE:LINE: or
  // FILE:LINE:COLUMN:, there is nothing more.
  [[nodiscard]] Result<std::optional<ParsedLine>> next();

  // What was passed over at the end without being an error.
  [[nodiscard]] std::optional<std::string> remark() const;

 private:
  ReplayInput(std::string name, ParsedLines parsed)
      : name_(std::move(name)), parsed_(std::move(parsed)) {}
  void fill();
  void order(ParsedLine line);
  [[nodiscard]] Error at_line(std::uint64_t line, const Error& error) const;

  std::string name_;
  ParsedLines parsed_;
  std::deque<ParsedLine> window_;  // records by time; an observation is alone in it, or the last
  std::optional<MonotonicTime> last_;
  bool finished_ = false;
  std::optional<Error> failure_;  // told once the window is empty
};

}  // namespace forestall::cli
