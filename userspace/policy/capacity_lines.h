// SPDX-License-Identifier: Apache-2.0
// Lines for the thresholds on filesystems and tasks, for the source that watches them.
#pragma once

#include <vector>

#include "model/capacity_line.h"
#include "model/decision.h"

namespace forestall::policy {

// One line for each threshold of the decision that is about a filesystem or tasks: its limit, plus
// the minimum reclaim while it drives, as the next step will compare it.
[[nodiscard]] std::vector<CapacityLine> capacity_lines(const Decision& decision);

}  // namespace forestall::policy
