// SPDX-License-Identifier: Apache-2.0
// What is wrong with a file, and where: the form in which `check-config` and the agent tell it,
// FILE:LINE:COLUMN: message, as compilers do, so that editors can jump to it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forestall::api {

// Both count from 1. Columns count characters, not bytes.
struct Position {
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  friend auto operator<=>(const Position&, const Position&) = default;
};

// What is wrong with a text, which whoever reads it knows the name of.
struct Diagnostic {
  Position at;
  std::string message;

  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

// Where a value was written: a place in a file, or a flag of the command line, which has none.
struct Origin {
  std::string file;  // or "--eviction-hard"; empty: nowhere, it is a default
  std::optional<Position> at;

  friend bool operator==(const Origin&, const Origin&) = default;
};

// "kubelet.yaml:3:5", "--eviction-hard", "default".
[[nodiscard]] std::string to_string(const Origin& origin);

struct Finding {
  Origin origin;
  std::string message;
};

// What was found in all that was read. Errors keep the configuration from being used; a warning is
// about something that is allowed but hardly meant.
struct Findings {
  std::vector<Finding> errors;
  std::vector<Finding> warnings;

  void add_errors(const std::string& file, const std::vector<Diagnostic>& diagnostics);
};

// One line per finding, "ORIGIN: message", without a newline at the end; control characters are
// escaped. By file in the order in which they come up first, and in each by position. After the
// twentieth of a file the rest is only counted: the first few are what gets fixed.
[[nodiscard]] std::string format(const std::vector<Finding>& findings);
// The same, one string for each, all of them.
[[nodiscard]] std::vector<std::string> format_each(const std::vector<Finding>& findings);

}  // namespace forestall::api
