// SPDX-License-Identifier: Apache-2.0
// The runs of a simulation as JSON and as a table. The first run is that in which nothing is moved.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rebalance/simulation.h"
#include "text/json_writer.h"

namespace forestall::cli {

// "5"; "5.25 to 7" if nodes are unknown, which may have been hot; "unknown" if none was measured.
[[nodiscard]] std::string hot_minutes_text(const rebalance::SimulationRun& run);
// Of the nodes that every run measures.
[[nodiscard]] std::string compared_minutes_text(const rebalance::SimulationRun& run);

// The member "runs". A trace has more counts than a synthetic cluster.
void write_runs(text::JsonWriter& out, std::span<const rebalance::SimulationRun> runs,
                bool of_trace);

void print_runs(std::span<const rebalance::SimulationRun> runs, bool of_trace);

}  // namespace forestall::cli
