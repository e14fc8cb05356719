// SPDX-License-Identifier: Apache-2.0
#include "api/diagnostic.h"

#include <algorithm>

namespace forestall::api {
namespace {

constexpr std::size_t kShownMax = 20;

}  // namespace

std::vector<std::string> format_each(const std::string& file, std::vector<Diagnostic> diagnostics) {
  // Stable: of several at one position the first found is the most telling.
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; });
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(file + ":" + std::to_string(diagnostic.at.line) + ":" +
                    std::to_string(diagnostic.at.column) + ": " + diagnostic.message);
  }
  return lines;
}

std::string format(const std::string& file, std::vector<Diagnostic> diagnostics) {
  std::vector<std::string> lines = format_each(file, std::move(diagnostics));
  const std::size_t hidden = lines.size() > kShownMax ? lines.size() - kShownMax : 0;
  lines.resize(lines.size() - hidden);
  if (hidden > 0) lines.push_back(file + ": and " + std::to_string(hidden) + " more");
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

}  // namespace forestall::api
