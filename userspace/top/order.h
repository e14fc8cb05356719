// SPDX-License-Identifier: Apache-2.0
// The eviction order as `forestall top` shows it, from an agent or from this host's files.
#pragma once

#include <vector>

#include "forestall/internal/top.pb.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::top {

// Sets ranking, comparators, workloads and next_victim, as for memory.available.
void set_order(const std::vector<Candidate>& order, Ranking ranking, internal::TopReport& report);

// The agent's candidates as model values. Errors name the invalid field.
[[nodiscard]] Result<std::vector<Candidate>> candidates_of(
    const google::protobuf::RepeatedPtrField<v1::Candidate>& order);

// Adds the thresholds of `config` that are missing in the report's signals. Thresholds on the
// workloads' own limits are left out: they have values only while a workload is near its limit.
void add_unknown(const Config& config, const Observation& observation, internal::TopReport& report);

// Adds state that only the agent has to the thresholds in `report`: since when each is met, whether
// its grace period is over, and whether it waits for its minimum reclaim.
void add_history(const google::protobuf::RepeatedPtrField<v1::Evidence>& known,
                 internal::TopReport& report);

}  // namespace forestall::top
