// SPDX-License-Identifier: Apache-2.0
#include "actuators/protected_groups.h"

#include <algorithm>
#include <utility>

namespace forestall::actuators {

ProtectedGroups::ProtectedGroups(std::vector<ProtectedGroup> groups) : groups_(std::move(groups)) {
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

}  // namespace forestall::actuators
