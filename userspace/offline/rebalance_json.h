// SPDX-License-Identifier: Apache-2.0
// A plan of the rebalancer as JSON. Its keys include names of resources, so no message has its
// form.
#pragma once

#include <functional>
#include <string_view>

#include "rebalance/plan.h"
#include "rebalance/snapshot.h"

namespace forestall::cli {

// Passes the text to `write` in pieces, because that of a large cluster has hundreds of MiB.
void write_plan_json(const rebalance::RebalancePlan& plan, const rebalance::Snapshot& snapshot,
                     const std::function<void(std::string_view)>& write);

}  // namespace forestall::cli
