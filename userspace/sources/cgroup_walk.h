// SPDX-License-Identifier: Apache-2.0
// The memory cgroups of a subtree, in the order in which the kernel walks them: pre-order, siblings
// as they were created (mm/memcontrol.c mem_cgroup_iter over css_next_descendant_pre; a new css is
// appended to its parent's list of children).
//
// When a cgroup was created shows in its id. kernfs hands ids out ascending and, where ino_t has 64
// bits, never twice (fs/kernfs/dir.c __kernfs_new_node: the upper half counts how often the lower
// one wrapped). A css can be younger than its directory, if memory was put into the parent's
// cgroup.subtree_control later; but then the kernel makes those of all children at once, in the
// order of the directories, so that the order is the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/oom.h"

namespace forestall::sources {

// Replaces `found` by the memory cgroup at `top` and all below it, `top` first. On v2 a directory
// whose parent does not enable the memory controller is no memory cgroup, and neither is what lies
// below it. What is removed meanwhile may be in it or not; an error if `top` itself is gone.
// memory.oom.group is read on the way.
[[nodiscard]] Result<void> walk_memory_cgroups(const kernel::CgroupTree& tree,
                                               const std::string& top,
                                               std::vector<OomCgroup>& found);

}  // namespace forestall::sources
