// SPDX-License-Identifier: Apache-2.0
// The order of eviction as `forestall top` tells it, the same whether an agent or its own look
// found it.
#pragma once

#include <vector>

#include "forestall/v1/top.pb.h"
#include "model/config.h"
#include "model/decision.h"

namespace forestall::top {

// Fills in ranking, comparators, workloads and next_victim, as for memory.available.
void set_order(const std::vector<Candidate>& order, Ranking ranking, v1::TopReport& report);

// An agent's candidates as model values. An error names the field that is not understood.
[[nodiscard]] Result<std::vector<Candidate>> candidates_of(
    const google::protobuf::RepeatedPtrField<v1::Candidate>& order);

// What only the agent knows of the thresholds in `report`: since when each is met, whether its
// grace period is over, and whether one that was met waits for its minimum reclaim.
void add_history(const google::protobuf::RepeatedPtrField<v1::Evidence>& known,
                 v1::TopReport& report);

}  // namespace forestall::top
