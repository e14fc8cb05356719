// SPDX-License-Identifier: Apache-2.0
// Creates, limits and removes cgroups. libcgroup creates them; rmdir removes them, because
// libcgroup's recursive delete moves live processes to the parent, out of their limits, and its
// other mode reports success for a group that it did not remove.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::kernel {

// Creates the group at `path` and its missing ancestors in the memory hierarchy, with a limit if
// one is given, and on a hybrid host the same path in the cgroup2 mount. On v2 it turns the memory
// controller on for the root's children, and leaves it on. An existing group only gets the limit.
// Cold path, control thread only: libcgroup keeps process-wide state.
//
// EINVAL for "/" and malformed paths. ENODEV: libcgroup finds the memory controller at another
// mount than `tree` (inside a container) and would create the group there.
[[nodiscard]] Result<void> create_group(const CgroupTree& tree, std::string_view path,
                                        std::optional<Bytes> limit = std::nullopt);

// Removes the group and its descendants, leaves first, in both hierarchies. Never touches a
// process: EBUSY if one is left. Succeeds if there is no such group.
[[nodiscard]] Result<void> delete_group(const CgroupTree& tree, std::string_view path);

}  // namespace forestall::kernel
