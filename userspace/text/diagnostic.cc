// SPDX-License-Identifier: Apache-2.0
#include "text/diagnostic.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/printable.h"

namespace forestall::text {
namespace {

constexpr std::size_t kFindingsMax = 20;

// Indices of the list by file, sorted by position. Of several findings at one position, the first
// one found stays first, because it is the most specific.
std::vector<std::vector<std::size_t>> by_file(const std::vector<Finding>& findings) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::string_view, std::size_t> group_of;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto [known, fresh] = group_of.try_emplace(findings[i].origin.file, groups.size());
    if (fresh) groups.emplace_back();
    groups[known->second].push_back(i);
  }
  for (std::vector<std::size_t>& group : groups) {
    std::sort(group.begin(), group.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(findings[a].origin.at, a) < std::pair(findings[b].origin.at, b);
    });
  }
  return groups;
}

std::string line_of(const Finding& finding) {
  const std::string place = finding.origin.file.empty() ? "" : to_string(finding.origin) + ": ";
  // Messages quote untrusted text, which may contain line breaks or terminal escape sequences.
  return escaped(place + finding.message);
}

}  // namespace

std::string to_string(const Origin& origin) {
  if (origin.file.empty()) return "default";
  if (!origin.at) return origin.file;
  return origin.file + ":" + std::to_string(origin.at->line) + ":" +
         std::to_string(origin.at->column);
}

void Findings::add_errors(const std::string& file, const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& each : diagnostics) errors.push_back({{file, each.at}, each.message});
}

std::vector<std::string> format_each(const std::vector<Finding>& findings) {
  std::vector<std::string> lines;
  for (const auto& group : by_file(findings)) {
    for (const std::size_t i : group) lines.push_back(line_of(findings[i]));
  }
  return lines;
}

std::string format(const std::vector<Finding>& findings) {
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const auto& group : by_file(findings)) {
    const std::size_t shown = std::min(group.size(), kFindingsMax);
    for (std::size_t i = 0; i < shown; ++i) add(line_of(findings[group[i]]));
    if (shown < group.size()) {
      add(findings[group[0]].origin.file + ": and " + std::to_string(group.size() - shown) +
          " more");
    }
  }
  return text;
}

}  // namespace forestall::text
