// SPDX-License-Identifier: Apache-2.0
// The memory cgroups of a subtree in the kernel's walk order: pre-order, siblings in order of
// creation (mm/memcontrol.c mem_cgroup_iter over css_next_descendant_pre; a new css is appended to
// its parent's list of children).
//
// The id of a cgroup gives its order of creation. kernfs assigns ids in ascending order and, where
// ino_t has 64 bits, never reuses them (fs/kernfs/dir.c __kernfs_new_node: the upper half counts
// the wraps of the lower half). A css can be younger than its directory if memory was added to the
// parent's cgroup.subtree_control later. The kernel then creates the css of all children at once,
// in the order of the directories, so the order is the same.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/oom.h"

namespace forestall::sources {

// Replaces `found` with the memory cgroup at `top` and its descendants, `top` first. On v2 a
// directory whose parent does not enable the memory controller is no memory cgroup, nor are its
// descendants. Cgroups removed during the walk may or may not be included. Fails if `top` itself is
// removed. Reads memory.oom.group on the way.
//
// Covers a tree of any depth. A path longer than PATH_MAX is shortened: it ends in "/..." and
// cannot be opened. So `visit`, if set, receives each group open, when it is the last one of
// `found`.
using VisitMemoryCgroup = std::function<Result<void>(const kernel::CgroupDir& group)>;
[[nodiscard]] Result<void> walk_memory_cgroups(const kernel::CgroupTree& tree,
                                               const std::string& top,
                                               std::vector<OomCgroup>& found,
                                               const VisitMemoryCgroup& visit = {});

}  // namespace forestall::sources
