// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "cli/rebalance_options.h"
#include "cluster/rebalancer.h"

namespace forestall::cluster {

// Without the access to the API server. `identity` is that of the process. Errors: an option or
// the file of the policy.
[[nodiscard]] Result<RebalancerOptions> rebalancer_options(const cli::RebalanceOptions& given,
                                                           const std::string& identity);
// Unique: the host's name and a random part.
[[nodiscard]] std::string process_identity();

}  // namespace forestall::cluster
