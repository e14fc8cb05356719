// SPDX-License-Identifier: Apache-2.0
// Plays the files of a recorded cluster through policies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/rebalance_options.h"
#include "rebalance/policy.h"
#include "rebalance/simulation.h"
#include "rebalance/snapshot.h"
#include "text/diagnostic.h"

namespace forestall::cli {

struct NamedPolicy {
  std::string name;
  std::string text;
};

struct ParsedPolicy {
  std::string name;
  rebalance::Policy policy;
};

// `classes` null: thresholds by name are not resolved. Errors are in `findings`.
[[nodiscard]] std::vector<ParsedPolicy> parse_policies(
    const std::vector<NamedPolicy>& policies, const std::vector<rebalance::PriorityClass>* classes,
    text::Findings& findings);

struct PlayedTrace {
  std::vector<rebalance::SimulationRun> runs;  // the first one moves nothing
  std::uint64_t states = 0;
  std::int64_t first_ns = 0;  // CLOCK_REALTIME
  std::int64_t last_ns = 0;
  bool has_reports = false;  // some state has NodeReports
  // Why the last state was left out, which may be cut off; none: it was played.
  std::vector<text::Finding> left_out;
};

// Reads and plays one state after the other, with the priority classes of the first one. Nothing
// after an error, which is in `findings`.
[[nodiscard]] std::optional<PlayedTrace> play_trace(const SimulateOptions& simulate,
                                                    const std::vector<NamedPolicy>& policies,
                                                    text::Findings& findings);

}  // namespace forestall::cli
