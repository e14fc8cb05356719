// SPDX-License-Identifier: Apache-2.0
// Layout of `--help`: groups of names with descriptions, wrapped to the width of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace forestall::cli {

inline constexpr std::size_t kHelpColumns = 80;

struct HelpEntry {
  std::string name;  // with the form of its value
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

// No line is longer than kHelpColumns, unless a single word is. Lines of the description and the
// footer end where they are broken there, or earlier.
[[nodiscard]] std::string help_text(const HelpText& help);

}  // namespace forestall::cli
