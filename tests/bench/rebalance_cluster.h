// SPDX-License-Identifier: Apache-2.0
// A generated cluster as large as wanted, for measurements of the rebalancer.
#pragma once

#include <string>

namespace forestall::test {

// A List of nodes and pods, without spaces. Half of the nodes have three quarters of the pods.
[[nodiscard]] std::string cluster_json(int nodes, int pods);

}  // namespace forestall::test
