// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "descheduler/policy_reader.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::descheduler {

// The arguments of DefaultEvictor. A priority threshold by name is resolved by `classes`; null:
// they are not known, and the name is not resolved.
[[nodiscard]] rebalance::DefaultEvictorArgs read_evictor_args(
    PolicyMap& args, const std::vector<rebalance::PriorityClass>* classes);

}  // namespace forestall::descheduler
