// SPDX-License-Identifier: Apache-2.0
// The runs of a simulation as one HTML file: a table of totals, and plots over the time as SVG. It
// has no scripts and loads nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rebalance/simulation.h"

namespace forestall::cli {

// What was simulated.
struct SimulationSubject {
  std::string description;         // sentences
  std::vector<std::string> notes;  // limits of its numbers
  bool is_trace = false;           // else a synthetic cluster
};

[[nodiscard]] SimulationSubject subject_of(const rebalance::SimulationOptions& options);

// The first run is that in which nothing is moved. REQUIRES: `runs` is not empty, and all have
// points at the same times.
[[nodiscard]] std::string simulation_page(const SimulationSubject& subject,
                                          std::span<const rebalance::SimulationRun> runs);

}  // namespace forestall::cli
