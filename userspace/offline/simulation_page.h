// SPDX-License-Identifier: Apache-2.0
// The runs of a simulation as one HTML file: a table of totals, and plots over the time as SVG. It
// has no scripts and loads nothing.
#pragma once

#include <span>
#include <string>

#include "rebalance/simulation.h"

namespace forestall::cli {

// The first run is that in which nothing is moved. REQUIRES: `runs` is not empty, and all have
// points at the same times.
[[nodiscard]] std::string simulation_page(const rebalance::SimulationOptions& options,
                                          std::span<const rebalance::SimulationRun> runs);

}  // namespace forestall::cli
