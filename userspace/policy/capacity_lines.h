// SPDX-License-Identifier: Apache-2.0
// Where the thresholds on filesystems and tasks lie, for the source that watches what is left.
#pragma once

#include <vector>

#include "model/capacity_line.h"
#include "model/decision.h"

namespace forestall::policy {

// One for each threshold the decision looked at that is about a filesystem or tasks: below its
// limit, with the minimum reclaim on top while it drives, as the next step will compare it.
[[nodiscard]] std::vector<CapacityLine> capacity_lines(const Decision& decision);

}  // namespace forestall::policy
