// SPDX-License-Identifier: Apache-2.0
// One evaluation of this host for a subcommand that only shows it: the agent's observer and policy,
// without usage lines and without signals.
#pragma once

#include <cstdint>
#include <variant>

#include "base/clock.h"
#include "base/result.h"
#include "cli/options.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::cli {

struct HostEvaluation {
  Config config;
  std::vector<std::string> warnings;
  Observation observation;  // includes the workloads
  Decision decision;        // what the agent would decide
};

// `usage`: the configuration is invalid, and the exit code is kExitUsage.
struct EvaluationFailure {
  Error error;
  bool usage = false;
};

// What an evaluation reads of the workloads.
enum class Depth : std::uint8_t {
  memory,  // memory and processes
  disk,    // also disk usage, which blocks until all files of the pods were walked
};

// With `disk`, the size of writable layers stays unknown: only the agent queries the container
// runtime. With `growth_over` above 0 the workloads are read twice, that long apart, and each
// sample contains its growth.
[[nodiscard]] std::variant<HostEvaluation, EvaluationFailure> evaluate_host(
    const Options& options, Depth depth = Depth::memory, Duration growth_over = Duration::zero());

// Prints the failure and returns its exit code.
int report_failure(const char* command, const EvaluationFailure& failure);

}  // namespace forestall::cli
