// SPDX-License-Identifier: Apache-2.0
// Checks of globs over cgroup paths, as text: whether a glob is well formed, and whether two globs
// can match the same cgroups. kernel/cgroup_tree.h matches them against real cgroups.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace forestall::intake {

// An absolute path without '..', '.', empty components or a trailing slash ("/" itself is valid).
// `*` and `?` match characters within a component. "**" is refused because it would not match
// across '/' as in other programs.
[[nodiscard]] Result<void> check_glob(std::string_view glob);
// The same without wildcards.
[[nodiscard]] Result<void> check_cgroup_path(std::string_view path);

// Whether a path that matches `inner` can equal or be below a path that matches `outer`. May return
// true wrongly: bracket expressions and escapes are assumed to match anything.
[[nodiscard]] bool may_lie_within(std::string_view inner, std::string_view outer);

// Whether the path matches (fnmatch with FNM_PATHNAME).
[[nodiscard]] bool glob_matches(const std::string& glob, const std::string& path);

// The system cgroups of systemd that `glob` matches by a wildcard at the top level, as "/*" does.
[[nodiscard]] std::vector<std::string> system_cgroups_in(const std::string& glob);

}  // namespace forestall::intake
