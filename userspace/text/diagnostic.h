// SPDX-License-Identifier: Apache-2.0
// Problems of a file and their positions. `check-config` and the agent print them as
// FILE:LINE:COLUMN: message, as compilers do, so that editors can jump to them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forestall::text {

// Both count from 1. Columns count characters, not bytes.
struct Position {
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  friend auto operator<=>(const Position&, const Position&) = default;
};

// A problem of a text; the caller adds the name of the text.
struct Diagnostic {
  Position at;
  std::string message;

  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

// Where a value was written: a position in a file, or a command line flag without a position.
struct Origin {
  std::string file;  // or "--eviction-hard"; empty: a default
  std::optional<Position> at;

  friend bool operator==(const Origin&, const Origin&) = default;
};

// "kubelet.yaml:3:5", "--eviction-hard", "default".
[[nodiscard]] std::string to_string(const Origin& origin);

struct Finding {
  Origin origin;
  std::string message;
};

// All problems that were found. A configuration with errors is not used; a warning is about
// something allowed but probably unintended.
struct Findings {
  std::vector<Finding> errors;
  std::vector<Finding> warnings;

  void add_errors(const std::string& file, const std::vector<Diagnostic>& diagnostics);
};

// One line per finding, "ORIGIN: message", without a final newline; control characters are escaped.
// Grouped by file in order of first appearance, and sorted by position within a file. After twenty
// findings of a file, the rest is only counted.
[[nodiscard]] std::string format(const std::vector<Finding>& findings);
// The same as one string per finding, without the limit.
[[nodiscard]] std::vector<std::string> format_each(const std::vector<Finding>& findings);

}  // namespace forestall::text
