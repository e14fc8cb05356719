// SPDX-License-Identifier: Apache-2.0
#include "cli/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace forestall::cli {
namespace {

constexpr std::size_t kMargin = 2;
constexpr std::size_t kGap = 2;
// A longer name has its description on the next line.
constexpr std::size_t kLongestName = 23;

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    std::istringstream words(paragraph);
    std::string line;
    for (std::string word; words >> word;) {
      if (!line.empty() && line.size() + 1 + word.size() > width) {
        lines.push_back(std::move(line));
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::size_t name_width(const HelpText& help) {
  std::size_t width = 0;
  for (const HelpGroup& group : help.groups) {
    for (const HelpEntry& entry : group.entries) {
      if (entry.name.size() <= kLongestName) width = std::max(width, entry.name.size());
    }
  }
  return width;
}

void append_entry(std::string& text, const HelpEntry& entry, std::size_t width) {
  const std::string indent(kMargin + width + kGap, ' ');
  std::string start = std::string(kMargin, ' ') + entry.name;
  if (entry.name.size() > width) {
    text += start + "\n";
    start.clear();
  }
  for (const std::string& line : wrapped(entry.description, kHelpColumns - indent.size())) {
    text += fmt::format("{:<{}}{}\n", start, indent.size(), line);
    start.clear();
  }
}

}  // namespace

std::string help_text(const HelpText& help) {
  std::string text;
  for (const std::string& line : wrapped(help.description, kHelpColumns)) text += line + "\n";
  text += fmt::format("\nUsage: {}\n", help.usage);
  const std::size_t width = name_width(help);
  for (const HelpGroup& group : help.groups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const HelpEntry& entry : group.entries) append_entry(text, entry, width);
  }
  if (help.footer.empty()) return text;
  text += "\n";
  for (const std::string& line : wrapped(help.footer, kHelpColumns)) text += line + "\n";
  return text;
}

}  // namespace forestall::cli
