// SPDX-License-Identifier: Apache-2.0
// Moves the measured usage of pods from the samples and reports of one node to those of another, as
// if the pods ran there.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rebalance/snapshot.h"

namespace forestall::rebalance {

struct UsageShift {
  std::string_view pod_namespace;
  std::string_view pod;
  std::string_view uid;  // as it was recorded
  std::string_view new_uid;
  std::string_view from;
  std::string_view to;  // empty: the pod is gone, or waits for a node
  const Amounts* request = nullptr;
};

// Adds to `unknown` the nodes of pods whose memory is not measured. Such a pod counts on its new
// node with its request, and its old node keeps what was measured.
void shift_usage(Snapshot& state, const std::vector<UsageShift>& shifts,
                 std::unordered_set<std::string>& unknown);

}  // namespace forestall::rebalance
