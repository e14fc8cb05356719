// SPDX-License-Identifier: Apache-2.0
// The `history` that `forestall rebalance -o json` prints, read again for the next plan.
#pragma once

#include <string_view>

#include "base/result.h"
#include "rebalance/plan.h"

namespace forestall::descheduler {

// `text` is a whole plan, or its `history`. Errors may begin with LINE:COLUMN.
[[nodiscard]] Result<rebalance::PlanHistory> parse_plan_history(std::string_view text);

}  // namespace forestall::descheduler
