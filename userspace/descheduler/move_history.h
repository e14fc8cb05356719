// SPDX-License-Identifier: Apache-2.0
// The moves that `forestall rebalance -o json` prints as `history`, read again for the next plan.
#pragma once

#include <string_view>

#include "base/result.h"
#include "rebalance/move_memory.h"

namespace forestall::descheduler {

// `text` is a whole plan, or its `history`. Errors may begin with LINE:COLUMN.
[[nodiscard]] Result<rebalance::MoveHistory> parse_move_history(std::string_view text);

}  // namespace forestall::descheduler
