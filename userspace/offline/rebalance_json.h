// SPDX-License-Identifier: Apache-2.0
// A plan of the rebalancer as JSON. Its keys include names of resources, so no message has its
// form.
#pragma once

#include <string>

#include "rebalance/plan.h"
#include "rebalance/snapshot.h"

namespace forestall::cli {

[[nodiscard]] std::string plan_json(const rebalance::RebalancePlan& plan,
                                    const rebalance::Snapshot& snapshot);

}  // namespace forestall::cli
