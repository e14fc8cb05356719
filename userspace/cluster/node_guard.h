// SPDX-License-Identifier: Apache-2.0
// Whether an agent guards a node, as far as the node's object shows: it keeps the last state that
// was written, also when nothing writes it any more.
#pragma once

#include <cstdint>
#include <string_view>

#include "cluster/node_object.h"
#include "cluster/node_reporter.h"

namespace forestall::cluster {

// Two heartbeats of the condition: a single one may be late by the retries of a request.
inline constexpr Duration kConditionAgeMax = 2 * NodeReporter::kHeartbeat;

// Whether the condition was written within kConditionAgeMax before or after `wall_seconds`, because
// the clocks of nodes differ.
[[nodiscard]] bool has_current_condition(const NodeObject& node, std::int64_t wall_seconds);

// "True", "False" or "Unknown"; empty: no current condition.
[[nodiscard]] std::string_view current_pressure(const NodeObject& node, std::int64_t wall_seconds);

// "no" (it has the annotation), "yes" (an agent reports), or "unknown".
[[nodiscard]] std::string_view guarded_word(const NodeObject& node, std::int64_t wall_seconds);

}  // namespace forestall::cluster
