// SPDX-License-Identifier: Apache-2.0
// One look at this host by a subcommand that only shows: the agent's own observer and policy, with
// nothing armed and nobody signalled.
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

struct Look {
  Config config;
  std::vector<std::string> warnings;
  Observation observation;  // workloads included
  Decision decision;        // what the agent would decide on it
};

// The configuration could not be used: `usage` is set, and the exit code is kExitUsage.
struct LookFailure {
  Error error;
  bool usage = false;
};

// What a look reads of the workloads.
enum class Depth : std::uint8_t {
  memory,  // memory and processes
  disk,    // also what the pods occupy on disk: walks over their files, and waits for the end of it
};

// With `disk`, what the container runtime alone knows of, writable layers, stays unknown: it is
// asked by the agent only.
// With `growth_over` above 0 the workloads are read twice, that long apart, and each sample has its
// growth.
[[nodiscard]] std::variant<Look, LookFailure> look_at_host(const Options& options,
                                                           Depth depth = Depth::memory,
                                                           Duration growth_over = Duration::zero());

// Prints the failure and returns the exit code for it.
int report_failure(const char* command, const LookFailure& failure);

}  // namespace forestall::cli
