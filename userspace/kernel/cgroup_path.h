// SPDX-License-Identifier: Apache-2.0
// Where a memory cgroup is that the kernel named by its id alone.
#pragma once

#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"

namespace forestall::kernel {

// Its path in the memory hierarchy, without walking it: kernfs opens a directory by id
// (fs/kernfs/mount.c kernfs_fh_to_dentry). Needs CAP_DAC_READ_SEARCH. ESTALE when there is no such
// cgroup (any more).
[[nodiscard]] Result<std::string> cgroup_path(const CgroupTree& tree, CgroupId id);

}  // namespace forestall::kernel
