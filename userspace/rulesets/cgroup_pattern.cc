// SPDX-License-Identifier: Apache-2.0
#include "rulesets/cgroup_pattern.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/parse.h"

namespace forestall::rulesets {
namespace {

std::vector<std::string> components_of(std::string_view path) {
  std::vector<std::string> components;
  while (!path.empty()) {
    const std::string_view part = next_field(path, '/');
    if (!part.empty()) components.emplace_back(part);
  }
  return components;
}

// The end of the bracket expression that begins at `pattern[0]`, which is '['; npos if it has no
// end and so is a plain character.
std::size_t bracket_end(std::string_view pattern) {
  std::size_t i = 1;
  if (i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^')) ++i;
  const std::size_t first = i;  // here, ']' is a member
  for (; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > first) return i;
    if (pattern[i] == '\\') {
      ++i;
      continue;
    }
    if (pattern[i] != '[' || i + 1 == pattern.size()) continue;
    // "[:digit:]", "[=a=]", "[.a.]": a class of characters, or one character.
    const char kind = pattern[i + 1];
    if (kind != ':' && kind != '=' && kind != '.') continue;
    const std::size_t close = pattern.find(std::string{kind, ']'}, i + 2);
    if (close != std::string_view::npos) i = close + 1;
  }
  return std::string_view::npos;
}

bool bracket_matches(std::string_view bracket, char c) {
  const char name[] = {c, '\0'};
  return ::fnmatch(std::string(bracket).c_str(), name, 0) == 0;
}

// The length of the part of `pattern`, which is not empty and begins with no star, that stands for
// one character; 0 if it does not match `c`.
std::size_t matched_part(std::string_view pattern, char c) {
  const char first = pattern.front();
  const std::size_t end = first == '[' ? bracket_end(pattern) : std::string_view::npos;
  if (end != std::string_view::npos) {
    return bracket_matches(pattern.substr(0, end + 1), c) ? end + 1 : 0;
  }
  if (first == '\\' && pattern.size() > 1) return pattern[1] == c ? 2 : 0;
  return first == '?' || first == c ? 1 : 0;
}

// Without the rule of dots. After a mismatch, the last star takes one character more.
bool matches_glob(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::optional<std::size_t> after_star;
  std::size_t star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_end = n;
      continue;
    }
    const std::size_t part = p < pattern.size() ? matched_part(pattern.substr(p), name[n]) : 0;
    if (part > 0) {
      p += part;
      ++n;
    } else if (after_star) {
      p = *after_star;
      n = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// Patterns are separated at commas first, so braces hold one alternative. "{}" is plain text.
std::string without_braces(std::string_view pattern) {
  std::string plain(pattern);
  for (std::size_t open = plain.find('{'); open != std::string::npos;
       open = plain.find('{', open)) {
    const std::size_t close = plain.find('}', open);
    if (close == std::string::npos) break;
    if (close == open + 1) {
      open = close;
      continue;
    }
    plain.erase(close, 1);
    plain.erase(open, 1);
  }
  return plain;
}

bool is_plain(std::string_view pattern) {
  return pattern.find_first_of("*?[\\{") == std::string_view::npos;
}

void collect(const CgroupPattern& pattern, std::size_t depth, const Cgroup& at,
             const RuleObservation& observed, std::vector<const Cgroup*>& found) {
  if (depth == pattern.components.size()) {
    found.push_back(&at);
    return;
  }
  const std::string& component = pattern.components[depth];
  const std::string prefix = is_root(at) ? "/" : at.path + "/";
  if (is_plain(component)) {
    const Cgroup* child = observed.find(prefix + component);
    if (child != nullptr) collect(pattern, depth + 1, *child, observed, found);
    return;
  }
  for (const Cgroup* child : observed.children(at)) {
    const std::string_view name = std::string_view(child->path).substr(prefix.size());
    if (component_matches(component, name)) collect(pattern, depth + 1, *child, observed, found);
  }
}

}  // namespace

CgroupPatterns parse_cgroup_patterns(std::string_view text) {
  CgroupPatterns patterns;
  while (!text.empty()) {
    const std::string_view path = next_field(text, ',');
    if (!path.empty()) patterns.push_back({components_of(path)});
  }
  return patterns;
}

bool component_matches(std::string_view pattern, std::string_view name) {
  const std::string plain = without_braces(pattern);
  if (name.starts_with('.') && !plain.starts_with('.')) return false;
  return matches_glob(plain, name);
}

std::vector<const Cgroup*> matching(const CgroupPatterns& patterns,
                                    const RuleObservation& observed) {
  std::vector<const Cgroup*> found;
  const Cgroup* root = observed.find("/");
  if (root == nullptr) return found;
  for (const CgroupPattern& each : patterns) collect(each, 0, *root, observed, found);
  std::sort(found.begin(), found.end(),
            [](const Cgroup* a, const Cgroup* b) { return a->path < b->path; });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool hook_matches(const CgroupPatterns& patterns, std::string_view path) {
  const std::vector<std::string> parts = components_of(path);
  return std::any_of(patterns.begin(), patterns.end(), [&parts](const CgroupPattern& each) {
    const std::size_t shorter = std::min(parts.size(), each.components.size());
    for (std::size_t i = 0; i < shorter; ++i) {
      if (each.components[i] != "*" && each.components[i] != parts[i]) return false;
    }
    return true;
  });
}

}  // namespace forestall::rulesets
