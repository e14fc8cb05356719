// SPDX-License-Identifier: Apache-2.0
// What the memory of a cgroup or of the node consists of, from the kernel's files.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/memory_kinds.h"

namespace forestall::kernel {

// Of memory.stat. v2 counts tmpfs in `file`, v1 in `cache`: both are subtracted here. v1 does not
// name the kernel's part.
[[nodiscard]] Result<MemoryKinds> parse_memory_kinds(std::string_view memory_stat);
// Of /proc/meminfo.
[[nodiscard]] Result<MemoryKinds> parse_node_kinds(std::string_view meminfo);

// Of a cgroup, its descendants included. On v1 `kernel` is memory.kmem.usage_in_bytes.
[[nodiscard]] Result<MemoryKinds> memory_kinds(const CgroupDir& cgroup, CgroupVersion version);
// Of the node. `proc` is the procfs of the host.
[[nodiscard]] Result<MemoryKinds> node_memory_kinds(const std::string& proc = "/proc");

}  // namespace forestall::kernel
