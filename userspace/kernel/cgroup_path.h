// SPDX-License-Identifier: Apache-2.0
// The path of a memory cgroup of which only the id is known.
#pragma once

#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"

namespace forestall::kernel {

// Its path in the memory hierarchy, without a walk: kernfs opens a directory by id
// (fs/kernfs/mount.c kernfs_fh_to_dentry). Needs CAP_DAC_READ_SEARCH. ESTALE: there is no such
// cgroup, or not any more.
[[nodiscard]] Result<std::string> cgroup_path(const CgroupTree& tree, CgroupId id);

// Whether the memory hierarchy is mounted from its root on. Else (a cgroup namespace, a bind mount)
// a path in the mount is not the path that the kernel has for the cgroup.
[[nodiscard]] bool is_mounted_whole(const CgroupTree& tree);

}  // namespace forestall::kernel
