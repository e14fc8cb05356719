// SPDX-License-Identifier: Apache-2.0
// Layout of `--help`: groups of names with descriptions, wrapped to the width of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace forestall::cli {

inline constexpr std::size_t kHelpColumns = 80;

struct HelpEntry {
  std::string name;  // with its value
  std::string description;
};

struct HelpGroup {
  std::string title;
  std::vector<HelpEntry> entries;
};

struct HelpText {
  std::string description;
  std::string usage;  // without "Usage: "
  std::vector<HelpGroup> groups;
  std::string footer;  // may be empty
};

// No line is longer than kHelpColumns, unless a single word is. Line breaks of the description and
// the footer are kept; longer lines are wrapped.
[[nodiscard]] std::string help_text(const HelpText& help);

}  // namespace forestall::cli
