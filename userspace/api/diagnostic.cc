// SPDX-License-Identifier: Apache-2.0
#include "api/diagnostic.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace forestall::api {
namespace {

constexpr std::size_t kShownMax = 20;

// Messages quote what was written, which may hold line breaks or escape sequences of a terminal.
std::string on_one_line(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

std::vector<std::string> format_each(const std::string& file,
                                     const std::vector<Diagnostic>& diagnostics) {
  // By position, and of several at one position the first found first: it is the most telling.
  // (Not stable_sort: libstdc++ builds it on a function that clang refuses as deprecated.)
  std::vector<std::size_t> order(diagnostics.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(diagnostics[a].at, a) < std::pair(diagnostics[b].at, b);
  });
  std::vector<std::string> lines;
  for (const std::size_t i : order) {
    const Diagnostic& diagnostic = diagnostics[i];
    lines.push_back(on_one_line(file + ":" + std::to_string(diagnostic.at.line) + ":" +
                                std::to_string(diagnostic.at.column) + ": " + diagnostic.message));
  }
  return lines;
}

std::string format(const std::string& file, const std::vector<Diagnostic>& diagnostics) {
  std::vector<std::string> lines = format_each(file, diagnostics);
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
