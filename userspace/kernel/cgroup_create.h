// SPDX-License-Identifier: Apache-2.0
// Making, limiting and removing cgroups, by libcgroup where it can and by rmdir where it must not:
// its recursive delete moves live processes to the parent, out of their limits, and its other mode
// reports success on a group it did not remove.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"

namespace forestall::kernel {

// Makes the group at `path` (and those above it) in the memory hierarchy, with a limit if one is
// given, and on a hybrid host the same path in the cgroup2 mount. On v2 the memory controller is
// turned on for the root's children and stays on. Existing groups are kept as they are, but get
// the limit. Cold path, control thread only: libcgroup keeps process-wide state.
//
// EINVAL for "/" and malformed paths; ENODEV when libcgroup knows the memory controller under
// another mount than `tree` does (inside a container), since it would make the group there.
[[nodiscard]] Result<void> create_group(const CgroupTree& tree, std::string_view path,
                                        std::optional<Bytes> limit = std::nullopt);

// Moves one process into the group, in both hierarchies on a hybrid host.
[[nodiscard]] Result<void> join_group(const CgroupTree& tree, std::string_view path, pid_t pid);

// Removes the group and the groups below it, leaves first, in both hierarchies. Never touches a
// process: EBUSY while one is left. Success when there is no such group.
[[nodiscard]] Result<void> delete_group(const CgroupTree& tree, std::string_view path);

}  // namespace forestall::kernel
