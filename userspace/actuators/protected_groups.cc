// SPDX-License-Identifier: Apache-2.0
#include "actuators/protected_groups.h"

#include <algorithm>
#include <utility>

#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

ProtectedGroups::ProtectedGroups(std::vector<ProtectedGroup> groups, std::vector<std::string> globs)
    : groups_(std::move(groups)), globs_(std::move(globs)) {
  std::ranges::sort(groups_, {}, &ProtectedGroup::path);
}

bool ProtectedGroups::cover(std::string_view path) const {
  for (std::string_view up = path; !up.empty(); up = up.substr(0, up.rfind('/'))) {
    const auto found = std::ranges::lower_bound(groups_, up, {}, &ProtectedGroup::path);
    const bool listed = found != groups_.end() && found->path == up;
    if (listed && (found->with_descendants || up.size() == path.size())) return true;
  }
  return false;
}

bool ProtectedGroups::may_cover(std::string_view path) const {
  if (cover(path)) return true;
  for (std::string up(path); !up.empty(); up.resize(up.rfind('/'))) {
    const auto matches = [&](const std::string& glob) { return kernel::glob_matches(glob, up); };
    if (std::ranges::any_of(globs_, matches)) return true;
  }
  return false;
}

}  // namespace forestall::actuators
