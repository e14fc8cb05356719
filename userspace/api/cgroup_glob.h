// SPDX-License-Identifier: Apache-2.0
// Globs over cgroup paths, as text: whether they are well formed, and whether two of them can ever
// concern the same cgroups. Matching against real cgroups is kernel/cgroup_tree.h's.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace forestall::api {

// An absolute path without '..', '.', empty parts or a trailing slash ("/" itself is one); `*` and
// `?` may stand for characters inside a part, "**" is refused because it would not do what it
// promises elsewhere.
[[nodiscard]] Result<void> check_glob(std::string_view glob);
// The same without wildcards.
[[nodiscard]] Result<void> check_cgroup_path(std::string_view path);

// Whether some path that matches `inner` could equal or lie below some path that matches `outer`.
// Errs towards true: bracket expressions and escapes count as matching anything.
[[nodiscard]] bool may_lie_within(std::string_view inner, std::string_view outer);

}  // namespace forestall::api
