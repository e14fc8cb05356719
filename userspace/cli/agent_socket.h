// SPDX-License-Identifier: Apache-2.0
// Where a client finds the running agent.
#pragma once

#include <string>

#include "cli/options.h"

namespace forestall::cli {

// --socket; else the apiSocket of the configuration, unless only --run-dir is given; else the
// socket in the run directory. Empty: apiSocket is off. A configuration that cannot be read counts
// as one without apiSocket: the agent may run with another one.
[[nodiscard]] std::string agent_socket(const Options& options);

inline constexpr const char* kSocketOff = "apiSocket is off in the configuration";

}  // namespace forestall::cli
