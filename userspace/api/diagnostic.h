// SPDX-License-Identifier: Apache-2.0
// What is wrong with a file, and where: the form in which `check-config` and the agent tell it,
// FILE:LINE:COLUMN: message, as compilers do, so that editors can jump to it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace forestall::api {

// Both count from 1. Columns count characters, not bytes.
struct Position {
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  friend auto operator<=>(const Position&, const Position&) = default;
};

struct Diagnostic {
  Position at;
  std::string message;

  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

// One line per diagnostic, in the order of their positions, without a newline at the end; control
// characters are escaped. After the twentieth the rest is only counted: the first few are what
// gets fixed.
[[nodiscard]] std::string format(const std::string& file,
                                 const std::vector<Diagnostic>& diagnostics);
// The same, one string for each.
[[nodiscard]] std::vector<std::string> format_each(const std::string& file,
                                                   const std::vector<Diagnostic>& diagnostics);

}  // namespace forestall::api
