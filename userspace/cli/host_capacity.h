// SPDX-License-Identifier: Apache-2.0
// The capacity of this host, as `forestall plan` and `forestall doctor` use it.
#pragma once

#include <string>

#include "base/result.h"
#include "policy/plan.h"

namespace forestall::cli {

// Memory, CPUs, process IDs, and the size of the filesystem of `nodefs` or of its nearest existing
// parent.
[[nodiscard]] Result<policy::NodeCapacity> host_capacity(const std::string& nodefs);

}  // namespace forestall::cli
