// SPDX-License-Identifier: Apache-2.0
#include "intake/cgroup_glob.h"

#include <fnmatch.h>

#include <array>

#include "base/parse.h"
#include "base/quotes.h"

namespace forestall::intake {
namespace {

constexpr std::size_t kPathMax = 4095;  // PATH_MAX without its NUL

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  path.remove_prefix(1);  // the leading slash
  while (!path.empty()) parts.push_back(next_field(path, '/'));
  return parts;
}

// systemd's top-level cgroups, and a unit or a session in each.
constexpr std::array kSystemCgroups{"/system.slice", "/user.slice", "/init.scope",
                                    "/system.slice/ssh.service", "/user.slice/user-1000.slice"};

// Whether some text matches both patterns, by a walk over the product: reachable[j] is whether a
// prefix of `a` and the first j characters of `b` can match the same text.
bool parts_may_meet(std::string_view a, std::string_view b) {
  if (a.find_first_of("[\\") != a.npos || b.find_first_of("[\\") != b.npos) return true;
  std::vector<bool> reachable(b.size() + 1);
  for (std::size_t i = 0; i <= a.size(); ++i) {
    std::vector<bool> next(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 && j == 0) {
        next[j] = true;
        continue;
      }
      // A '*' on either side matches nothing, or one more element of the other side.
      const bool skip_a = i > 0 && (a[i - 1] == '*' || (j > 0 && b[j - 1] == '*')) && reachable[j];
      const bool skip_b = j > 0 && (b[j - 1] == '*' || (i > 0 && a[i - 1] == '*')) && next[j - 1];
      const bool both = i > 0 && j > 0 && reachable[j - 1] &&
                        (a[i - 1] == b[j - 1] || a[i - 1] == '?' || b[j - 1] == '?');
      next[j] = skip_a || skip_b || both;
    }
    reachable = std::move(next);
  }
  return reachable[b.size()];
}

}  // namespace

Result<void> check_glob(std::string_view glob) {
  if (!glob.starts_with('/')) {
    return error("must be an absolute cgroup path (beginning with '/'), found " + in_quotes(glob));
  }
  if (glob.size() > kPathMax) {
    return error("is longer than the maximum of " + std::to_string(kPathMax) + " bytes");
  }
  if (glob == "/") return {};
  if (glob.ends_with('/')) return error("must not end in '/', found " + in_quotes(glob));
  for (const std::string_view part : parts_of(glob)) {
    if (part.empty()) return error("must not hold '//', found " + in_quotes(glob));
    if (part == "." || part == "..") {
      return error("must not hold '" + std::string(part) + "' as a part, found " + in_quotes(glob));
    }
    if (part.find("**") != part.npos) {
      return error(
          "must not hold '**' ('*' stops at '/'; write one pattern for each depth), found " +
          in_quotes(glob));
    }
  }
  return {};
}

Result<void> check_cgroup_path(std::string_view path) {
  if (path.find_first_of("*?") != path.npos) {
    return error("must be one path without wildcards, found " + in_quotes(path));
  }
  return check_glob(path);
}

bool may_lie_within(std::string_view inner, std::string_view outer) {
  const auto inner_parts = parts_of(inner);
  const auto outer_parts = parts_of(outer);
  if (inner_parts.size() < outer_parts.size()) return false;
  for (std::size_t i = 0; i < outer_parts.size(); ++i) {
    if (!parts_may_meet(inner_parts[i], outer_parts[i])) return false;
  }
  return true;
}

bool glob_matches(const std::string& glob, const std::string& path) {
  return ::fnmatch(glob.c_str(), path.c_str(), FNM_PATHNAME) == 0;
}

std::vector<std::string> system_cgroups_in(const std::string& glob) {
  const std::string top = glob.substr(0, glob.find('/', 1));
  if (top.find_first_of("*?[") == top.npos) return {};  // named on purpose
  std::vector<std::string> matched(kSystemCgroups.begin(), kSystemCgroups.end());
  std::erase_if(matched, [&](const std::string& path) { return !glob_matches(glob, path); });
  return matched;
}

}  // namespace forestall::intake
