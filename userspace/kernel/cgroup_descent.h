// SPDX-License-Identifier: Apache-2.0
// Visits a cgroup and all its descendants with a fixed number of descriptors, whatever their depth
// and number: an unprivileged user may own the subtree and create groups in it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::kernel {

// Receives an open group and its path in the hierarchy. group.path() is only its last part.
using VisitGroup = std::function<Result<void>(const CgroupDir& group, const std::string& path)>;

// Visits `top`, then its descendants, parents first. Skips a descendant that is removed meanwhile.
// After any other error the visit continues with the next group, and the first error is returned.
// ENODEV or ENOENT: `top` itself was removed; no descendant was visited. Three descriptors at once.
[[nodiscard]] Result<void> visit_groups(const CgroupDir& top, const VisitGroup& visit);

struct VisitedGroup {
  const CgroupDir& group;
  const std::string& path;  // as above; may be longer than PATH_MAX
  std::size_t depth = 0;    // levels below the top
};
// Whether to visit the descendants.
using ChooseDescent = std::function<Result<bool>(const VisitedGroup& visited)>;

// The same in pre-order, siblings in the order of their inodes, which is the order of creation.
[[nodiscard]] Result<void> visit_groups_as_created(const CgroupDir& top,
                                                   const ChooseDescent& visit);

}  // namespace forestall::kernel
