// SPDX-License-Identifier: Apache-2.0
// A cgroup that is open already: its directory and its usage file, shared by all that need them. A
// path lookup waits for kernfs locks that any tenant can hold; a read of these does not.
#pragma once

#include <memory>

#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"

namespace forestall::kernel {

struct HeldCgroup {
  std::shared_ptr<const CgroupDir> directory;
  std::shared_ptr<const HeldFile> usage;  // memory.current or memory.usage_in_bytes
};

}  // namespace forestall::kernel
