// SPDX-License-Identifier: Apache-2.0
// The eviction order as a message, for `rank --output json` and the agent's Rank call.
#pragma once

#include <string_view>
#include <vector>

#include "forestall/v1/report.pb.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/rank.h"

namespace forestall::daemon {

// `layout_from`: where by.layout is from: option, host or default.
[[nodiscard]] v1::RankReport rank_report(const std::vector<Candidate>& order,
                                         const policy::RankBy& by, std::string_view layout_from);

// The node's values and signals. Without the workloads, which an order contains.
[[nodiscard]] v1::SignalsReport signals_report(Observation observation,
                                               const std::vector<Evidence>& signals);

// Keeps what can be ranked for `signal`: usage of a filesystem is known by pod only
// (policy/step.cc ranked()).
void keep_rankable(Signal signal, std::vector<WorkloadSample>& workloads);

}  // namespace forestall::daemon
