// SPDX-License-Identifier: Apache-2.0
// Lines for the thresholds on filesystems and tasks, for the source that watches them.
#pragma once

#include <vector>

#include "model/capacity_line.h"
#include "model/decision.h"

namespace forestall::policy {

// One line for each threshold of the decision that is about a filesystem or tasks. It is the limit
// that the next step compares, which includes the minimum reclaim while the threshold drives.
[[nodiscard]] std::vector<CapacityLine> capacity_lines(const Decision& decision);

}  // namespace forestall::policy
